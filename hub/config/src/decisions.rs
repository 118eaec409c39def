//! What the owner decided for good: `decisions.toml`.

use std::io;
use std::path::PathBuf;

use consentry_core::Memory;
use consentry_gate::{Remembered, parse_site};
use serde::{Deserialize, Serialize};

use crate::read::read_text;
use crate::write::write_private;

/// The file.
#[derive(Debug, Clone)]
pub struct Decisions(pub PathBuf);

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    site: Vec<SiteLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteLine {
    site: String,
    path: consentry_wire::PathName,
    key: consentry_gate::KeyName,
    profile: consentry_wire::ProfileId,
}

impl Decisions {
    /// Reads them. A file that cannot be read remembers nothing, which is the stricter: the error is for the log.
    ///
    /// # Errors
    /// When the file is there and cannot be understood.
    pub fn load(&self) -> io::Result<Vec<Remembered>> {
        let text = match read_text(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let file: File =
            toml::from_str(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let remembered = |line: SiteLine| {
            let site =
                parse_site(&line.site).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            Ok(Remembered { path: line.path, key: line.key, profile: line.profile, site })
        };
        file.site.into_iter().map(remembered).collect()
    }
}

impl Memory for Decisions {
    fn keep(&self, sites: &[Remembered]) -> io::Result<()> {
        let line = |r: &Remembered| SiteLine {
            site: r.site.to_string(),
            path: r.path.clone(),
            key: r.key.clone(),
            profile: r.profile.clone(),
        };
        let file = File { site: sites.iter().map(line).collect() };
        let text = toml::to_string(&file).map_err(io::Error::other)?;
        let head = "# Sites that you allowed for good. `consentry site list` shows them, `consentry site forget` ends them.\n\n";
        write_private(&self.0, (head.to_owned() + &text).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let decisions = Decisions(folder.path().join("decisions.toml"));
        assert!(decisions.load().unwrap().is_empty());
        let site = |text: &str| Remembered {
            path: "browser".parse().unwrap(),
            key: "claude".parse().unwrap(),
            profile: "k3x9".parse().unwrap(),
            site: parse_site(text).unwrap(),
        };
        let sites = vec![site("example.com"), site("http://[::1]:8080"), site("https://127.0.0.1:8443")];
        decisions.keep(&sites).unwrap();
        assert_eq!(decisions.load().unwrap(), sites);
        std::fs::write(
            &decisions.0,
            "[[site]]\nsite = \"com\"\npath = \"browser\"\nkey = \"a\"\nprofile = \"k3x9\"\n",
        )
        .unwrap();
        assert!(decisions.load().is_err());
    }
}
