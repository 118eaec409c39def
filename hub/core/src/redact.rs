//! What goes from addresses before they are written down.

/// An address without its user, and without the values of parameters: they carry tokens and what was searched for. Of
/// one that is not on the web, such as a script or data, its scheme alone.
pub fn redact_url(address: &str) -> String {
    if !["http://", "https://"].iter().any(|web| starts_with(address, web)) {
        return address.split_once(':').map_or("…".to_owned(), |(scheme, _)| {
            if scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
                format!("{scheme}:…")
            } else {
                "…".to_owned()
            }
        });
    }
    let (rest, fragment) = address.split_once('#').map_or((address, false), |(rest, _)| (rest, true));
    let (base, query) = rest.split_once('?').map_or((rest, None), |(base, query)| (base, Some(query)));
    let mut out = without_user(base);
    if let Some(query) = query {
        out.push('?');
        let names = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) => format!("{name}=…"),
            None => "…".to_owned(),
        });
        out.push_str(&names.collect::<Vec<_>>().join("&"));
    }
    if fragment {
        out.push_str("#…");
    }
    out
}

fn starts_with(address: &str, web: &str) -> bool {
    address.get(..web.len()).is_some_and(|start| start.eq_ignore_ascii_case(web))
}

fn without_user(base: &str) -> String {
    let Some((scheme, rest)) = base.split_once("://") else { return base.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_keep_where_and_lose_what() {
        for (address, kept) in [
            ("https://example.com/a/b", "https://example.com/a/b"),
            ("https://u:p@example.com/x?q=my+illness&t#frag", "https://example.com/x?q=…&…#…"),
            ("http://localhost:8080/?token=abc", "http://localhost:8080/?token=…"),
            ("javascript:alert('abc')", "javascript:…"),
            ("data:text/html,abc", "data:…"),
            ("not an address", "…"),
            ("secret words: here", "…"),
        ] {
            assert_eq!(redact_url(address), kept);
        }
    }

    proptest! {
        #[test]
        fn a_canary_in_a_query_a_fragment_or_a_user_never_passes(place in 0..4) {
            let address = match place {
                0 => "https://example.com/?q=c4n4ry",
                1 => "https://example.com/#c4n4ry",
                2 => "https://c4n4ry@example.com/",
                _ => "https://u:c4n4ry@example.com/?x#y",
            };
            prop_assert!(!redact_url(address).contains("c4n4ry"));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,200}") {
            let _ = redact_url(&text);
        }
    }
}
