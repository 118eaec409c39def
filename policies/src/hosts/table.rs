//! The one table of browsers.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of host manifests, in a profile folder.
pub(super) const HOSTS_FOLDER: &str = "NativeMessagingHosts";

/// Whose folders are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Linux.
    Linux,
    /// macOS.
    MacOs,
}

impl Platform {
    /// The one that this runs on.
    pub const CURRENT: Self = if cfg!(target_os = "macos") { Self::MacOs } else { Self::Linux };

    /// Where profile folders lie in a home.
    fn profiles(self) -> &'static str {
        match self {
            Self::Linux => ".config",
            Self::MacOs => "Library/Application Support",
        }
    }
}

/// Whether a browser can start a program of the owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It starts whatever its manifest names.
    Always,
    /// Perhaps not, and why; say so beside what was installed.
    Perhaps(&'static str),
    /// It cannot, and why; the extension has to use its WebSocket.
    Never(&'static str),
}

/// One browser, or one channel of it that has a profile folder of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Browser {
    name: &'static str,
    linux: Option<Place>,
    macos: Option<Place>,
    reach: Reach,
    pub(super) executables: &'static [&'static str],
    pub(super) app: Option<&'static str>,
}

/// Where one browser looks, on one platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// The profile folder: from [`Platform::profiles`], or from the home where it begins with `~/`.
    profile: &'static str,
    /// Another browser's profile folder in which it looks as well.
    also: Option<&'static str>,
    /// The folder for all users, if it is known.
    system: Option<&'static str>,
}

impl Place {
    const fn at(profile: &'static str, system: Option<&'static str>) -> Option<Self> {
        Some(Self { profile, also: None, system })
    }

    fn profile_in(self, home: &Path, platform: Platform) -> PathBuf {
        in_home(home, platform, self.profile)
    }
}

fn in_home(home: &Path, platform: Platform, folder: &str) -> PathBuf {
    match folder.strip_prefix("~/") {
        Some(folder) => home.join(folder),
        None => home.join(platform.profiles()).join(folder),
    }
}

impl Browser {
    /// Its name, for people. Unlike in this table.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it can start the relay.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    fn place(&self, platform: Platform) -> Option<Place> {
        match platform {
            Platform::Linux => self.linux,
            Platform::MacOs => self.macos,
        }
    }

    /// Its profile folder in a home, if it exists on that platform.
    pub fn profile(&self, home: &Path, platform: Platform) -> Option<PathBuf> {
        Some(self.place(platform)?.profile_in(home, platform))
    }

    /// The folders of host manifests that are written for it in a home, its own first.
    pub fn folders(&self, home: &Path, platform: Platform) -> Vec<PathBuf> {
        let Some(place) = self.place(platform) else { return Vec::new() };
        let profiles = [Some(place.profile), place.also];
        profiles.into_iter().flatten().map(|p| in_home(home, platform, p).join(HOSTS_FOLDER)).collect()
    }

    /// The folder of host manifests for all users of a machine, if it is known. Only root writes there.
    pub fn system_folder(&self, platform: Platform) -> Option<&'static Path> {
        self.place(platform)?.system.map(Path::new)
    }
}

/// The folder of host manifests of a browser that was started with `--user-data-dir`. Measured on Chromium:
/// such a browser looks there and in the system's folder, and nowhere else.
pub fn custom_folder(user_data_dir: &Path) -> PathBuf {
    user_data_dir.join(HOSTS_FOLDER)
}

/// The browsers that have a profile folder in a home. A folder that holds nothing but host manifests, which
/// this and other programs write for browsers that are not there, does not count.
pub fn found(home: &Path, platform: Platform) -> Vec<&'static Browser> {
    let used = |browser: &&Browser| {
        let Some(profile) = browser.profile(home, platform) else { return false };
        fs::read_dir(profile)
            .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|e| e.file_name() != HOSTS_FOLDER)))
    };
    BROWSERS.iter().filter(used).collect()
}

const CHROME_LINUX: Option<&str> = Some("/etc/opt/chrome/native-messaging-hosts");
const CHROME_MACOS: Option<&str> = Some("/Library/Google/Chrome/NativeMessagingHosts");
const FLATPAK: Reach = Reach::Never("a Flatpak cannot start a program outside its sandbox");

/// Every browser that is known.
pub static BROWSERS: &[Browser] = &[
    Browser {
        name: "Google Chrome",
        linux: Place::at("google-chrome", CHROME_LINUX),
        macos: Place::at("Google/Chrome", CHROME_MACOS),
        reach: Reach::Always,
        executables: &["chrome", "google-chrome", "google-chrome-stable"],
        app: Some("Google Chrome"),
    },
    Browser {
        name: "Google Chrome Beta",
        linux: Place::at("google-chrome-beta", CHROME_LINUX),
        macos: Place::at("Google/Chrome Beta", CHROME_MACOS),
        reach: Reach::Always,
        executables: &["google-chrome-beta"],
        app: Some("Google Chrome Beta"),
    },
    Browser {
        name: "Google Chrome Dev",
        linux: Place::at("google-chrome-unstable", CHROME_LINUX),
        macos: Place::at("Google/Chrome Dev", CHROME_MACOS),
        reach: Reach::Always,
        executables: &["google-chrome-unstable"],
        app: Some("Google Chrome Dev"),
    },
    Browser {
        name: "Google Chrome Canary",
        linux: None,
        macos: Place::at("Google/Chrome Canary", CHROME_MACOS),
        reach: Reach::Always,
        executables: &[],
        app: Some("Google Chrome Canary"),
    },
    Browser {
        name: "Chromium",
        linux: Place::at("chromium", Some("/etc/chromium/native-messaging-hosts")),
        macos: Place::at("Chromium", Some("/Library/Application Support/Chromium/NativeMessagingHosts")),
        reach: Reach::Always,
        executables: &["chromium", "chromium-browser"],
        app: Some("Chromium"),
    },
    Browser {
        name: "Chromium (Snap)",
        linux: Place::at("~/snap/chromium/common/chromium", None),
        macos: None,
        reach: Reach::Perhaps("a Snap may not read hidden folders of the home, where the relay lies"),
        executables: &[],
        app: None,
    },
    Browser {
        name: "Chromium (Flatpak)",
        linux: Place::at("~/.var/app/org.chromium.Chromium/config/chromium", None),
        macos: None,
        reach: FLATPAK,
        executables: &[],
        app: None,
    },
    Browser {
        name: "Google Chrome (Flatpak)",
        linux: Place::at("~/.var/app/com.google.Chrome/config/google-chrome", None),
        macos: None,
        reach: FLATPAK,
        executables: &[],
        app: None,
    },
    Browser {
        name: "Microsoft Edge",
        linux: Place::at("microsoft-edge", Some("/etc/opt/edge/native-messaging-hosts")),
        macos: Place::at("Microsoft Edge", Some("/Library/Microsoft/Edge/NativeMessagingHosts")),
        reach: Reach::Always,
        executables: &["msedge", "microsoft-edge", "microsoft-edge-stable"],
        app: Some("Microsoft Edge"),
    },
    Browser {
        name: "Brave",
        linux: Place::at("BraveSoftware/Brave-Browser", CHROME_LINUX),
        // It reads Chrome's folders there.
        macos: Some(Place {
            profile: "BraveSoftware/Brave-Browser",
            also: Some("Google/Chrome"),
            system: CHROME_MACOS,
        }),
        reach: Reach::Always,
        executables: &["brave", "brave-browser", "brave-browser-stable"],
        app: Some("Brave Browser"),
    },
    Browser {
        name: "Vivaldi",
        linux: Place::at("vivaldi", None),
        macos: Place::at("Vivaldi", None),
        reach: Reach::Always,
        executables: &["vivaldi", "vivaldi-bin", "vivaldi-stable"],
        app: Some("Vivaldi"),
    },
    Browser {
        name: "Arc",
        linux: None,
        macos: Place::at("Arc/User Data", None),
        reach: Reach::Always,
        executables: &[],
        app: Some("Arc"),
    },
];
