//! Which browser a running program is.

use std::path::Path;

use super::table::BROWSERS;

/// The name of the browser whose executable this is, by its path.
///
/// It is a look at a name, which any program of the same user can give itself: it tells accidents and
/// strangers from browsers, and is no proof. On macOS the executable must lie in the browser's bundle,
/// wherever that is. A browser that was updated while it runs has lost its file, which Linux marks on the
/// path; it is known all the same.
pub fn known_browser(executable: &Path) -> Option<&'static str> {
    let name = executable.file_name()?.to_str()?;
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    if let Some(bundle) = bundle_of(executable) {
        // "Google Chrome for Testing" is Chrome by another name; no profile of an owner's has it.
        let known = BROWSERS.iter().find(|b| b.app == Some(name) && b.app == Some(bundle));
        let testing = name == CHROME_FOR_TESTING && bundle == CHROME_FOR_TESTING;
        return known.map(|b| b.name()).or(testing.then_some(CHROME_FOR_TESTING));
    }
    let browser = BROWSERS.iter().find(|b| b.executables.contains(&name))?;
    // Chromium's own builds and its Snap call it `chrome` too.
    let in_chromium = executable
        .ancestors()
        .skip(1)
        .filter_map(Path::file_name)
        .any(|folder| folder.to_str().is_some_and(|folder| folder.starts_with("chromium")));
    Some(if name == "chrome" && in_chromium { "Chromium" } else { browser.name() })
}

const CHROME_FOR_TESTING: &str = "Google Chrome for Testing";

/// The name of the bundle of which this is the main executable: `<name>.app/Contents/MacOS/<executable>`.
fn bundle_of(executable: &Path) -> Option<&str> {
    let folder = executable.parent()?;
    if !folder.ends_with("Contents/MacOS") {
        return None;
    }
    folder.parent()?.parent()?.file_name()?.to_str()?.strip_suffix(".app")
}
