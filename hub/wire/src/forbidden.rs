//! Documents that are never attached, opened, read or listed beyond a host, whatever the owner allowed.
//!
//! Otherwise an agent could click "Allow", "Enable" or "Copy token" on Consentry's own pages, or change the
//! browser's settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::site::is_localhost;

/// What has to be known in order to decide: the hub's own ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubPorts {
    /// The MCP listener.
    pub mcp: u16,
    /// The status page, the WebSocket door and the update manifest.
    pub control: u16,
}

/// Why a document is never driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forbidden {
    /// Not an http or https document: the browser's own pages, files, extensions, data.
    Scheme,
    /// One of the hub's own ports.
    Hub,
    /// No address at all.
    Unreadable,
}

impl Forbidden {
    /// In words.
    pub fn reason(self) -> &'static str {
        match self {
            Forbidden::Scheme => "only http and https pages can be driven",
            Forbidden::Hub => "Consentry's own pages are never driven",
            Forbidden::Unreadable => "the address cannot be read",
        }
    }
}

/// Says whether an address is one that is never driven. `about:blank` is an empty page with nothing to read
/// or to press, and every new tab begins there, so it alone of the others passes.
pub fn check(address: &str, ports: HubPorts) -> Result<(), Forbidden> {
    if matches!(address, "about:blank" | "about:srcdoc") {
        return Ok(());
    }
    let url = Url::parse(address).map_err(|_| Forbidden::Unreadable)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Forbidden::Scheme);
    }
    let port = url.port_or_known_default().unwrap_or_default();
    let own_port = port == ports.mcp || port == ports.control;
    match url.host() {
        None => Err(Forbidden::Unreadable),
        Some(host) if own_port && is_this_machine(&host) => Err(Forbidden::Hub),
        Some(_) => Ok(()),
    }
}

/// Loopback by any name or number. A name that resolves to loopback by DNS passes here; the hub's own Host
/// check refuses it there.
fn is_this_machine(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => is_localhost(name),
        Host::Ipv4(address) => local_v4(*address),
        Host::Ipv6(address) => local_v6(*address),
    }
}

fn local_v4(address: Ipv4Addr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

fn local_v6(address: Ipv6Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.to_ipv4().is_some_and(|v4| local_v4(v4) || IpAddr::V4(v4).is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: HubPorts = HubPorts { mcp: 7311, control: 7312 };

    #[test]
    fn the_hub_is_found_behind_every_spelling_of_loopback() {
        for address in [
            "http://127.0.0.1:7312/",
            "http://localhost:7311/browser/mcp",
            "http://LOCALHOST.:7312",
            "http://a.localhost:7312/",
            "http://127.1:7312/",
            "http://2130706433:7312/",
            "http://0x7f.0.0.1:7312/",
            "http://127.8.9.1:7312/",
            "http://0.0.0.0:7312/",
            "http://[::1]:7312/",
            "http://[::]:7312/",
            "http://[::ffff:127.0.0.1]:7312/",
            "http://user@127.0.0.1:7312/",
            "https://127.0.0.1:7312/",
        ] {
            assert_eq!(check(address, PORTS), Err(Forbidden::Hub), "{address}");
        }
        assert_eq!(check("http://127.0.0.1:8080/", PORTS), Ok(()));
        assert_eq!(check("http://10.0.0.1:7312/", PORTS), Ok(()));
    }

    #[test]
    fn only_ordinary_pages_pass() {
        for address in [
            "chrome://settings",
            "chrome-extension://abcdefghijklmnopabcdefghijklmnop/options.html",
            "file:///etc/passwd",
            "data:text/html,hi",
            "javascript:alert(1)",
            "view-source:https://example.com",
            "devtools://devtools/bundled/inspector.html",
            "about:config",
            "blob:https://example.com/1",
            "filesystem:https://example.com/x",
            "ws://127.0.0.1:7312/extension",
        ] {
            assert_eq!(check(address, PORTS), Err(Forbidden::Scheme), "{address}");
        }
        assert_eq!(check("not an address", PORTS), Err(Forbidden::Unreadable));
        assert_eq!(check("about:blank", PORTS), Ok(()));
        assert_eq!(check("https://example.com/", PORTS), Ok(()));
    }
}
