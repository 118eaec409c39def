//! What a request must show before anything answers.

use axum::http::{HeaderMap, Method, Uri, header};

use crate::sessions::Sessions;

/// The cookie of a session. Its name carries the port, because cookies do not tell ports apart.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("consentry_{port}")
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The Host is not this listener's.
    Host,
    /// It went through a proxy.
    Proxy,
    /// A page of another origin sent it.
    Origin,
    /// There is no session.
    Session,
    /// A write without the token.
    Token,
}

impl Refused {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Refused::Host => "the Host must be 127.0.0.1 or localhost with this port",
            Refused::Proxy => "requests through a proxy are refused",
            Refused::Origin => "requests of other pages are refused",
            Refused::Session => "open this page with `consentry open`, or from the extension's popup",
            Refused::Token => "reload the page: it belongs to an earlier run of the hub",
        }
    }
}

/// Headers that say that somebody stands between.
const PROXIES: [&str; 6] =
    ["cf-connecting-ip", "cf-ray", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded"];

/// Checks what holds for every request: where it is addressed to and how it came.
pub(crate) fn address(headers: &HeaderMap, port: u16) -> Result<(), Refused> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    let ours = |name: &str| host.eq_ignore_ascii_case(&format!("{name}:{port}"));
    if hosts.next().is_some() || !(ours("127.0.0.1") || ours("localhost") || ours("[::1]")) {
        return Err(Refused::Host);
    }
    if PROXIES.iter().any(|name| headers.contains_key(*name)) {
        return Err(Refused::Proxy);
    }
    Ok(())
}

/// Checks what holds for the page and its data: a session, and for a write the token.
pub(crate) fn page(
    headers: &HeaderMap,
    method: &Method,
    uri: &Uri,
    port: u16,
    sessions: &Sessions,
) -> Result<(), Refused> {
    let own = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("http://{name}:{port}"));
    if let Some(origin) = headers.get(header::ORIGIN)
        && !own.iter().any(|own| origin == own.as_str())
    {
        return Err(Refused::Origin);
    }
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site")
        && uri.path() != "/open"
    {
        return Err(Refused::Origin);
    }
    let name = cookie_name(port);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    if !pairs.any(|(known, value)| known == name && sessions.holds(value)) {
        return Err(Refused::Session);
    }
    if *method != Method::GET && *method != Method::HEAD {
        let token =
            headers.get("x-consentry-token").and_then(|token| token.to_str().ok()).unwrap_or_default();
        if !sessions.is_token(token) {
            return Err(Refused::Token);
        }
    }
    Ok(())
}
