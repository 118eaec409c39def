//! Sites: what a grant may touch, and whether an address belongs to one.
//!
//! `example.com` means that host and its subdomains, over https on the default port. `http://`, addresses by
//! number and localhost are exact, with their port. Reading a site from what somebody typed, and refusing
//! public suffixes, is the gate's business; matching is done here because the extension does it too.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Where a document comes from. Only http and https have one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    https: bool,
    host: String,
    port: u16,
    named: bool,
}

/// No host that can be looked up has a longer name.
const LONGEST_HOST: usize = 253;

impl Origin {
    /// The origin of an address; `None` for anything but http and https, and for a name that no host can have.
    pub fn of(url: &Url) -> Option<Self> {
        let https = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = url.host()?;
        let named = matches!(&host, Host::Domain(name) if !is_localhost(name));
        // A trailing dot names the same host.
        let host = host.to_string().trim_end_matches('.').to_owned();
        if host.len() > LONGEST_HOST {
            return None;
        }
        Some(Self { https, host, port: url.port_or_known_default()?, named })
    }

    /// Reads an address; `None` for anything but http and https.
    pub fn parse(address: &str) -> Option<Self> {
        Self::of(&Url::parse(address).ok()?)
    }

    /// The host, in its ASCII form.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, the default one included.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is https.
    pub fn https(&self) -> bool {
        self.https
    }

    /// The narrowest site that holds this origin and can be remembered.
    pub fn site(&self) -> Site {
        if self.https && self.named && self.port == 443 {
            Site::Domain { host: self.host.clone() }
        } else {
            Site::Exact { https: self.https, host: self.host.clone(), port: self.port }
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        let default = if self.https { 443 } else { 80 };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == default { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// Whether a name is the machine itself by the web's own rule.
pub fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
}

/// One site that the owner allows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Site {
    /// A host and its subdomains, over https on port 443.
    Domain {
        /// In ASCII, without a trailing dot.
        host: String,
    },
    /// Exactly this scheme, host and port.
    Exact {
        /// https, or else http.
        https: bool,
        /// In ASCII; IPv6 in brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Site {
    /// Whether an origin belongs to the site.
    pub fn covers(&self, origin: &Origin) -> bool {
        match self {
            Site::Domain { host } => {
                origin.https
                    && origin.named
                    && origin.port == 443
                    && (origin.host == *host
                        || origin.host.strip_suffix(host.as_str()).is_some_and(|rest| rest.ends_with('.')))
            }
            Site::Exact { https, host, port } => {
                origin.https == *https && origin.host == *host && origin.port == *port
            }
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Domain { host } => f.write_str(host),
            Site::Exact { https, host, port } => {
                let origin = Origin { https: *https, host: host.clone(), port: *port, named: false };
                origin.fmt(f)
            }
        }
    }
}

/// Which sites a grant may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SiteScope {
    /// The owner turned the question off for this path.
    Any,
    /// These.
    Only(Vec<Site>),
}

impl SiteScope {
    /// Whether an origin may be touched.
    pub fn covers(&self, origin: &Origin) -> bool {
        match self {
            SiteScope::Any => true,
            SiteScope::Only(sites) => sites.iter().any(|site| site.covers(origin)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(host: &str) -> Site {
        Site::Domain { host: host.into() }
    }

    fn covers(site: &Site, address: &str) -> bool {
        Origin::parse(address).is_some_and(|origin| site.covers(&origin))
    }

    #[test]
    fn a_domain_covers_its_subdomains_over_https_and_nothing_that_only_looks_like_it() {
        let site = domain("example.com");
        for yes in [
            "https://example.com/a",
            "https://a.b.example.com",
            "https://EXAMPLE.com.",
            "https://example.com:443/",
        ] {
            assert!(covers(&site, yes), "{yes}");
        }
        for no in [
            "http://example.com/",
            "https://example.com:8443/",
            "https://notexample.com/",
            "https://example.com.evil.org/",
            "https://evil.org/?https://example.com",
            "https://example.com@evil.org/",
            "ftp://example.com/",
            "data:text/html,example.com",
        ] {
            assert!(!covers(&site, no), "{no}");
        }
    }

    #[test]
    fn http_numbers_and_localhost_are_exact() {
        for (address, other) in [
            ("http://localhost:8080/", "http://localhost:8081/"),
            ("https://127.0.0.1/", "https://127.0.0.2/"),
            ("http://[::1]:3000/", "http://127.0.0.1:3000/"),
            ("http://example.com/", "https://example.com/"),
            ("https://x.localhost/", "https://y.x.localhost/"),
        ] {
            let site = Origin::parse(address).unwrap().site();
            assert!(matches!(site, Site::Exact { .. }), "{address}");
            assert!(covers(&site, address) && !covers(&site, other), "{address}");
        }
        assert_eq!(Origin::parse("https://shop.example.com/x").unwrap().site(), domain("shop.example.com"));
    }
}
