//! Versions of the frames, and what two peers of different versions say to each other.

use serde::{Deserialize, Serialize};

use crate::{ErrorCode, Failure};

/// The version of the frames in this build.
pub const CURRENT: Version = Version { major: 1, minor: 0 };

/// A version of the frames. Another major is refused; another minor only knows fewer fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Changes when an old peer would misread a frame.
    pub major: u16,
    /// Changes when frames gain kinds or fields.
    pub minor: u16,
}

impl Version {
    /// Refuses a peer of another major with the remedy; `peer` names it for the reader.
    ///
    /// # Errors
    /// `version_skew`.
    pub fn check(self, peer: &str) -> Result<(), Failure> {
        if self.major == CURRENT.major {
            return Ok(());
        }
        let remedy = if self.major < CURRENT.major {
            format!("update the {peer}: `consentry extension path` writes the current copy")
        } else {
            "update the hub, then start it again".to_owned()
        };
        Err(Failure::new(
            ErrorCode::VersionSkew,
            format!(
                "the {peer} speaks version {}.{}, the hub {}.{}",
                self.major, self.minor, CURRENT.major, CURRENT.minor
            ),
        )
        .next(remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_major_is_refused_with_a_remedy_and_another_minor_is_not() {
        assert!(Version { major: CURRENT.major, minor: 99 }.check("extension").is_ok());
        let newer = Version { major: CURRENT.major + 1, minor: 0 }.check("extension").unwrap_err();
        assert_eq!(newer.code, ErrorCode::VersionSkew);
        assert!(newer.next.contains("update the hub"));
        let older = Version { major: CURRENT.major - 1, minor: 0 }.check("extension").unwrap_err();
        assert!(older.next.contains("update the extension"));
    }
}
