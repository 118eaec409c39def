//! What goes from addresses and command lines before they are written down.

/// Names of parameters whose value is never kept.
const SECRETS: [&str; 16] = [
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "pass",
    "key",
    "apikey",
    "auth",
    "authorization",
    "session",
    "sid",
    "code",
    "signature",
    "sig",
    "credential",
];

/// An address without its user, and without the values of parameters: they carry tokens and what was searched for.
pub fn redact_url(address: &str) -> String {
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

fn without_user(base: &str) -> String {
    let Some((scheme, rest)) = base.split_once("://") else { return base.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// A command line without what looks like a secret: values of telling options and variables, bearer tokens, users in
/// addresses.
pub fn redact_command(command: &str) -> String {
    let mut out = Vec::new();
    let mut hide_next = false;
    for word in command.split(' ') {
        if std::mem::take(&mut hide_next) && !word.is_empty() && !word.starts_with('-') {
            out.push("…".to_owned());
            continue;
        }
        let bare = word.trim_matches(|c| matches!(c, '"' | '\''));
        if let Some((name, value)) =
            bare.split_once(['=', ':']).filter(|(name, value)| telling(name) && !value.is_empty())
        {
            let _ = value;
            let mark = bare.as_bytes().get(name.len()).copied().map_or('=', char::from);
            out.push(format!("{name}{mark}…"));
        } else if bare.contains("://") {
            out.push(redact_url(bare));
        } else {
            hide_next = (bare.starts_with('-') && telling(bare)) || bare.eq_ignore_ascii_case("bearer");
            out.push(word.to_owned());
        }
    }
    out.join(" ")
}

fn telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    parts.into_iter().any(|part| SECRETS.contains(&part))
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
        ] {
            assert_eq!(redact_url(address), kept);
        }
    }

    #[test]
    fn commands_lose_what_looks_like_a_secret() {
        for (command, kept) in [
            ("ls -la /tmp", "ls -la /tmp"),
            ("API_KEY=abc make", "API_KEY=… make"),
            ("curl -H 'Authorization: Bearer abc' x", "curl -H 'Authorization: Bearer … x"),
            ("mysql --password hunter2 db", "mysql --password … db"),
            ("git clone https://me:tok@git.example/r", "git clone https://git.example/r"),
            ("export DB_PASSWORD=\"x y\"", "export DB_PASSWORD=… y\""),
        ] {
            assert_eq!(redact_command(command), kept);
        }
    }

    proptest! {
        #[test]
        fn a_canary_behind_a_telling_name_never_passes(name in "(--)?(token|password|API_KEY|my-secret)", sep in "[= ]") {
            let command = format!("run {name}{sep}c4n4ry-value");
            // A bare word before a space is no option.
            prop_assume!(sep == "=" || name.starts_with("--"));
            prop_assert!(!redact_command(&command).contains("c4n4ry"));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,200}") {
            let _ = redact_url(&text);
            let _ = redact_command(&text);
        }
    }
}
