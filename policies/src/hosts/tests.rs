use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use consentry_wire::socket::NATIVE_HOST;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const ID: &str = "abcdefghijklmnopabcdefghijklmnop";
const OTHER_ID: &str = "ponmlkjihgfedcbaponmlkjihgfedcba";
const RELAY: &str = "/home/ada/.consentry/bin/consentry-native-host";

fn host() -> Host {
    Host::new(&[ID], Path::new(RELAY)).unwrap()
}

/// A home in which these profile folders are used.
fn home(profiles: &[&str]) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for profile in profiles {
        fs::create_dir_all(home.path().join(profile).join("Default")).unwrap();
    }
    home
}

fn names(browsers: &[&Browser]) -> Vec<&'static str> {
    browsers.iter().map(|browser| browser.name()).collect()
}

#[test]
fn the_hosts_name_is_one_that_browsers_take() {
    assert!(NATIVE_HOST.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_')));
    assert!(!NATIVE_HOST.starts_with('.') && !NATIVE_HOST.ends_with('.') && !NATIVE_HOST.contains(".."));
    assert_eq!(Host::file(Path::new("/f")), Path::new("/f").join(format!("{NATIVE_HOST}.json")));
}

#[test]
fn a_manifest_says_what_browsers_want_in_the_same_words_each_time() {
    let text = manifest(&[OTHER_ID, ID, OTHER_ID], Path::new(RELAY)).unwrap();
    assert_eq!(
        text,
        r#"{
  "name": "com.consentry.hub",
  "description": "The relay between the Consentry extension and the hub",
  "path": "/home/ada/.consentry/bin/consentry-native-host",
  "type": "stdio",
  "allowed_origins": [
    "chrome-extension://abcdefghijklmnopabcdefghijklmnop/",
    "chrome-extension://ponmlkjihgfedcbaponmlkjihgfedcba/"
  ]
}
"#
    );
    assert_eq!(manifest(&[ID, OTHER_ID], Path::new(RELAY)).unwrap(), text);
}

#[test]
fn what_cannot_stand_in_a_manifest_is_refused() {
    let refused = |ids: &[&str], relay: &str| manifest(ids, Path::new(relay)).unwrap_err();
    assert!(matches!(refused(&[ID], "bin/relay"), ManifestError::RelativePath(_)));
    assert!(matches!(refused(&[ID], "/relay"), ManifestError::NoState(_)));
    assert!(matches!(refused(&[ID], "/bin/relay"), ManifestError::NoState(_)));
    assert_eq!(refused(&[], RELAY), ManifestError::NoIds);
    for bad in ["*", "", "ABCDEFGHIJKLMNOPABCDEFGHIJKLMNOP", "abcdefghijklmnopabcdefghijklmnoq"] {
        assert_eq!(refused(&[ID, bad], RELAY), ManifestError::BadId(bad.to_owned()));
    }
    use std::os::unix::ffi::OsStrExt as _;
    let odd = Path::new(std::ffi::OsStr::from_bytes(b"/a/\xff/bin/relay"));
    assert!(matches!(manifest(&[ID], odd), Err(ManifestError::PathNotText(_))));
}

#[test]
fn browsers_are_found_by_profiles_that_are_used() {
    let linux = home(&[".config/google-chrome", ".config/chromium", "snap/chromium/common/chromium"]);
    fs::create_dir_all(linux.path().join(".config/vivaldi/NativeMessagingHosts")).unwrap();
    fs::write(linux.path().join(".config/microsoft-edge"), "no folder").unwrap();
    assert_eq!(
        names(&found(linux.path(), Platform::Linux)),
        ["Google Chrome", "Chromium", "Chromium (Snap)"]
    );
    assert!(found(linux.path(), Platform::MacOs).is_empty());

    let support = "Library/Application Support";
    let mac = home(&[&format!("{support}/Google/Chrome Canary"), &format!("{support}/Arc/User Data")]);
    assert_eq!(names(&found(mac.path(), Platform::MacOs)), ["Google Chrome Canary", "Arc"]);
    assert!(found(mac.path(), Platform::Linux).is_empty());
    assert!(found(Path::new("/no/such/home"), Platform::CURRENT).is_empty());
}

#[test]
fn the_table_agrees_with_itself() {
    let home = Path::new("/home/ada");
    for platform in [Platform::Linux, Platform::MacOs] {
        let mut profiles: Vec<_> = BROWSERS.iter().filter_map(|b| b.profile(home, platform)).collect();
        let count = profiles.len();
        profiles.sort();
        profiles.dedup();
        assert_eq!(profiles.len(), count, "two browsers with one profile folder");
        for browser in BROWSERS {
            let own = browser.profile(home, platform).map(|p| p.join("NativeMessagingHosts"));
            assert_eq!(browser.folders(home, platform).first(), own.as_ref());
            if let Some(system) = browser.system_folder(platform) {
                assert!(system.is_absolute());
            }
        }
    }
    let mut all: Vec<_> = BROWSERS.iter().map(Browser::name).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), BROWSERS.len());

    let chrome = &BROWSERS[0];
    assert_eq!(
        chrome.folders(home, Platform::Linux),
        [Path::new("/home/ada/.config/google-chrome/NativeMessagingHosts")]
    );
    assert_eq!(
        chrome.folders(home, Platform::MacOs),
        [Path::new("/home/ada/Library/Application Support/Google/Chrome/NativeMessagingHosts")]
    );
    assert_eq!(
        chrome.system_folder(Platform::MacOs),
        Some(Path::new("/Library/Google/Chrome/NativeMessagingHosts"))
    );
    assert_eq!(custom_folder(Path::new("/tmp/p")), Path::new("/tmp/p/NativeMessagingHosts"));
}

#[test]
fn every_found_browser_is_told_refreshed_and_untold() {
    let home = home(&[
        ".config/google-chrome",
        ".config/chromium",
        ".var/app/org.chromium.Chromium/config/chromium",
    ]);
    let home = home.path();
    let states = |host: &Host| -> Vec<State> {
        status(home, Platform::Linux, host).into_iter().map(|e| e.outcome.unwrap()).collect()
    };
    let changes = |entries: Vec<Entry<Change>>| -> Vec<Change> {
        entries.into_iter().map(|e| e.outcome.unwrap()).collect()
    };
    let host = host();
    // A Flatpak could start nothing: it is left out.
    assert_eq!(states(&host), [State::Missing, State::Missing]);
    assert_eq!(changes(refresh(home, Platform::Linux, &host)), [Change::None, Change::None]);
    assert_eq!(states(&host), [State::Missing, State::Missing]);
    assert_eq!(changes(install(home, Platform::Linux, &host, Force::No)), [Change::Written, Change::Written]);
    assert_eq!(states(&host), [State::Installed, State::Installed]);
    assert_eq!(changes(install(home, Platform::Linux, &host, Force::No)), [Change::None, Change::None]);

    let newer = Host::new(&[OTHER_ID], Path::new(RELAY)).unwrap();
    assert!(states(&newer).iter().all(|s| *s == State::Stale { why: "it names other extensions" }));
    assert_eq!(changes(refresh(home, Platform::Linux, &newer)), [Change::Written, Change::Written]);
    assert_eq!(states(&newer), [State::Installed, State::Installed]);
    assert_eq!(changes(remove(home, Platform::Linux, &host, Force::No)), [Change::Removed, Change::Removed]);
    assert_eq!(states(&newer), [State::Missing, State::Missing]);
}

#[test]
fn on_a_mac_brave_is_told_in_both_folders_and_chrome_does_not_appear_by_it() {
    let support = "Library/Application Support";
    let brave_only = home(&[&format!("{support}/BraveSoftware/Brave-Browser")]);
    let path = brave_only.path();
    let entries = install(path, Platform::MacOs, &host(), Force::No);
    let folders: Vec<_> = entries.iter().map(|e| e.folder.strip_prefix(path).unwrap()).collect();
    assert_eq!(
        folders,
        [
            Path::new(support).join("BraveSoftware/Brave-Browser/NativeMessagingHosts"),
            Path::new(support).join("Google/Chrome/NativeMessagingHosts"),
        ]
    );
    assert!(entries.iter().all(|e| matches!(e.outcome, Ok(Change::Written))));
    assert_eq!(names(&found(path, Platform::MacOs)), ["Brave"]);

    let both =
        home(&[&format!("{support}/BraveSoftware/Brave-Browser"), &format!("{support}/Google/Chrome")]);
    let entries = install(both.path(), Platform::MacOs, &host(), Force::No);
    assert_eq!(entries.len(), 2, "a shared folder is visited once");
}

#[test]
fn a_file_is_whole_readable_and_alone() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = custom_folder(&folder.path().join("profile"));
    assert_eq!(host().install(&hosts, Force::No).unwrap(), Change::Written);
    let file = Host::file(&hosts);
    assert_eq!(fs::read_to_string(&file).unwrap(), host().text());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o644);
    assert_eq!(fs::read_dir(&hosts).unwrap().count(), 1);

    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(host().state(&hosts).unwrap(), State::Stale { why: "other users may write it" });
    assert_eq!(host().refresh(&hosts).unwrap(), Change::Written);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o644);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(host().state(&hosts).unwrap(), State::Installed);
}

#[test]
fn what_is_stale_is_ours_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = Host::file(folder.path());
    let state = |text: &str| {
        fs::write(&file, text).unwrap();
        host().state(folder.path()).unwrap()
    };
    let older = host().text().replace("/bin/consentry-native-host", "/old/relay");
    assert_eq!(state(&older), State::Stale { why: "it names another relay" });
    let wordy = host().text().replace("The relay", "A relay");
    assert_eq!(state(&wordy), State::Stale { why: "its text is not the current one" });
    assert_eq!(host().install(folder.path(), Force::No).unwrap(), Change::Written);
    assert_eq!(host().state(folder.path()).unwrap(), State::Installed);
}

#[test]
fn a_foreign_file_is_reported_and_stays_unless_the_owner_insists() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = Host::file(folder);
    let elsewhere = "/home/ada/.consentry-beta/bin/consentry-native-host";
    let other = host().text().replace(RELAY, elsewhere);
    let sly = host().text().replace(RELAY, "/home/ada/.consentry/../evil");
    let cases = [
        (other.as_str(), Some(PathBuf::from(elsewhere))),
        (sly.as_str(), Some(PathBuf::from("/home/ada/.consentry/../evil"))),
        ("{}", None),
        ("", None),
        ("not json", None),
    ];
    for (text, path) in cases {
        fs::write(&file, text).unwrap();
        assert_eq!(host().state(folder).unwrap(), State::Foreign { path });
        assert!(matches!(host().install(folder, Force::No), Err(HostError::Foreign(_))));
        assert!(matches!(host().remove(folder, Force::No), Err(HostError::Foreign(_))));
        assert_eq!(host().refresh(folder).unwrap(), Change::None);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    assert_eq!(host().install(folder, Force::Yes).unwrap(), Change::Written);
    assert_eq!(host().state(folder).unwrap(), State::Installed);
    fs::write(&file, &other).unwrap();
    assert_eq!(host().remove(folder, Force::Yes).unwrap(), Change::Removed);
    assert_eq!(host().remove(folder, Force::No).unwrap(), Change::None);
}

#[test]
fn a_link_is_replaced_and_never_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let hosts = folder.path().join("hosts");
    fs::create_dir(&hosts).unwrap();
    symlink(&target, Host::file(&hosts)).unwrap();
    assert_eq!(host().state(&hosts).unwrap(), State::Foreign { path: None });
    assert!(matches!(host().install(&hosts, Force::No), Err(HostError::Foreign(_))));
    assert_eq!(host().install(&hosts, Force::Yes).unwrap(), Change::Written);
    assert!(!target.exists());
    assert!(fs::symlink_metadata(Host::file(&hosts)).unwrap().is_file());
}

#[test]
fn what_cannot_be_done_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("hosts"), "a file where the folder should be").unwrap();
    let hosts = folder.path().join("hosts");
    let error = host().install(&hosts, Force::Yes).unwrap_err();
    assert!(matches!(error, HostError::Io { .. }));
    assert!(error.to_string().contains(hosts.to_str().unwrap()), "{error}");

    let taken = folder.path().join("taken");
    fs::create_dir_all(Host::file(&taken)).unwrap();
    assert_eq!(host().state(&taken).unwrap(), State::Foreign { path: None });
    assert!(matches!(host().install(&taken, Force::Yes), Err(HostError::Io { .. })));
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1, "the attempt leaves nothing beside");
}

#[test]
fn browsers_are_known_by_their_executables() {
    for (path, name) in [
        ("/opt/google/chrome/chrome", "Google Chrome"),
        ("/opt/google/chrome/chrome (deleted)", "Google Chrome"),
        ("/usr/bin/google-chrome-stable", "Google Chrome"),
        ("/opt/google/chrome-beta/chrome", "Google Chrome"),
        ("/usr/lib/chromium/chromium", "Chromium"),
        ("/usr/bin/chromium-browser", "Chromium"),
        ("/usr/lib/chromium-browser/chromium-browser", "Chromium"),
        ("/snap/chromium/2890/usr/lib/chromium-browser/chrome", "Chromium"),
        ("/opt/microsoft/msedge/msedge", "Microsoft Edge"),
        ("/opt/brave.com/brave/brave", "Brave"),
        ("/opt/vivaldi/vivaldi-bin", "Vivaldi"),
        ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "Google Chrome"),
        (
            "/Users/ada/Applications/Google Chrome Beta.app/Contents/MacOS/Google Chrome Beta",
            "Google Chrome Beta",
        ),
        (
            "/Applications/Google Chrome Canary.app/Contents/MacOS/Google Chrome Canary",
            "Google Chrome Canary",
        ),
        (
            "/tmp/Google Chrome for Testing.app/Contents/MacOS/Google Chrome for Testing",
            "Google Chrome for Testing",
        ),
        ("/Applications/Chromium.app/Contents/MacOS/Chromium", "Chromium"),
        ("/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge", "Microsoft Edge"),
        ("/Applications/Brave Browser.app/Contents/MacOS/Brave Browser", "Brave"),
        ("/Applications/Vivaldi.app/Contents/MacOS/Vivaldi", "Vivaldi"),
        ("/Applications/Arc.app/Contents/MacOS/Arc", "Arc"),
    ] {
        assert_eq!(known_browser(Path::new(path)), Some(name), "{path}");
    }
    for path in [
        "",
        "/",
        "/bin/bash",
        "/usr/bin/python3",
        "/opt/google/chrome/chrome_crashpad_handler",
        "/opt/google/chrome/chrome-sandbox",
        "/opt/google/chrome/nacl_helper",
        "/home/ada/Google Chrome",
        "/home/ada/Arc",
        "/Applications/Evil.app/Contents/MacOS/Google Chrome",
        "/Applications/Google Chrome.app/Contents/MacOS/Evil",
        "/usr/lib/chromium/chromium.sh",
    ] {
        assert_eq!(known_browser(Path::new(path)), None, "{path}");
    }
}

proptest! {
    #[test]
    fn no_file_makes_a_look_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(Host::file(folder.path()), bytes).unwrap();
        let state = host().state(folder.path()).unwrap();
        prop_assert!(matches!(state, State::Foreign { .. }), "{state:?}");
    }

    #[test]
    fn a_manifest_names_what_it_was_given(path in "/[^/\0]{1,20}/bin/[a-z]{1,9}", id in "[a-p]{32}") {
        prop_assume!(Path::new(&path).parent().and_then(Path::parent).and_then(Path::file_name).is_some());
        let text = manifest(&[&id], Path::new(&path)).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read["path"].as_str().unwrap(), path);
        prop_assert_eq!(read["allowed_origins"][0].as_str().unwrap(), format!("chrome-extension://{id}/"));
    }

    #[test]
    fn no_path_makes_knowing_a_browser_panic(path in ".{0,60}") {
        let _ = known_browser(Path::new(&path));
    }
}
