//! Reading a site from what somebody typed, and the sites that the owner told us to remember.

use consentry_wire::PathName;
use consentry_wire::ProfileId;
use consentry_wire::site::{Origin, Site, is_localhost};
use url::{Host, Url};

use crate::rules::KeyName;

/// Why a text names no site.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// No host can be read from it.
    #[error("{0:?} is no site: give a host such as example.com, or an address such as http://localhost:8080")]
    Unreadable(String),
    /// Everybody's: `com`, `co.uk`, `github.io`.
    #[error("{0} is a public suffix: it would allow everybody's sites below it")]
    PublicSuffix(String),
    /// A path, a user, a query.
    #[error("{0:?} has more than a host and a port")]
    TooMuch(String),
}

/// Reads a site. `example.com` is that host and its subdomains over https; anything with `http://`, a number or
/// localhost is exact, with its port.
///
/// # Errors
/// When it names no site, or more than one owner's.
pub fn parse_site(text: &str) -> Result<Site, SiteError> {
    let text = text.trim();
    let unreadable = || SiteError::Unreadable(text.chars().take(80).collect());
    let address = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = Url::parse(&address).map_err(|_| unreadable())?;
    let origin = Origin::of(&url).ok_or_else(unreadable)?;
    let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    if !bare || !url.username().is_empty() || url.password().is_some() {
        return Err(SiteError::TooMuch(text.chars().take(80).collect()));
    }
    if let Some(Host::Domain(name)) = url.host() {
        let name = name.trim_end_matches('.');
        if name.is_empty() || name.starts_with('*') || name.contains("..") {
            return Err(unreadable());
        }
        if !is_localhost(name) && is_public_suffix(name) {
            return Err(SiteError::PublicSuffix(name.to_owned()));
        }
    }
    Ok(origin.site())
}

/// Whether a name is on the public suffix list, private part included. A name without a dot that the list does
/// not know is a host of somebody's own network.
fn is_public_suffix(name: &str) -> bool {
    psl::suffix(name.as_bytes())
        .is_some_and(|suffix| suffix.is_known() && suffix.as_bytes() == name.as_bytes())
}

/// A site that the owner allowed for good, for one path, key and browser profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Remembered {
    /// The path.
    pub path: PathName,
    /// The key's name.
    pub key: KeyName,
    /// The browser profile.
    pub profile: ProfileId,
    /// The site.
    pub site: Site,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_becomes_a_site() {
        for (text, shown) in [
            ("example.com", "example.com"),
            (" Example.COM. ", "example.com"),
            ("https://example.com/", "example.com"),
            ("docs.github.io", "docs.github.io"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("http://example.com", "http://example.com"),
            ("https://example.com:8443", "https://example.com:8443"),
            ("http://localhost:8080", "http://localhost:8080"),
            ("localhost", "https://localhost"),
            ("127.0.0.1", "https://127.0.0.1"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("intranet", "intranet"),
        ] {
            assert_eq!(parse_site(text).map(|site| site.to_string()), Ok(shown.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_would_allow_more_than_one_owners_sites_is_refused() {
        for text in ["com", "co.uk", "github.io", "https://com", "*.com", "*", "*.example.com"] {
            assert!(parse_site(text).is_err(), "{text}");
        }
        assert!(matches!(parse_site("github.io"), Err(SiteError::PublicSuffix(_))));
        for text in ["example.com/path", "user@example.com", "https://example.com?x=1", "example.com#a"] {
            assert!(matches!(parse_site(text), Err(SiteError::TooMuch(_))), "{text}");
        }
        for text in ["", "chrome://settings", "file:///etc", "ftp://example.com", "a b", "example..com"] {
            assert!(parse_site(text).is_err(), "{text}");
        }
    }
}
