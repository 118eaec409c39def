//! What the demo plays on: a screen with somebody at it, a hub, a browser.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use consentry_demo::say;
use consentry_test_support::chromium::{self, Chromium};
use consentry_test_support::hub::{HubOptions, Owner, Programs, ScratchHub};
use consentry_test_support::xsession::XSession;
use serde_json::Value;

/// How long a browser may take from its start until it is linked.
const LINKED: Duration = Duration::from_secs(60);

/// A person needs time to read. The hub asks about this too, as it is longer than the default.
const TIME_TO_READ: &str = "window_seconds = 60";

/// What a hub takes over from a desktop, so that its dialogs and notifications come up there.
const DESKTOP: &[&str] = &["XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "XDG_SESSION_ID"];

/// A screen and who clicks on it.
pub(crate) enum Screen {
    /// The desktop that this was started on, and the person before it.
    Desktop { display: Option<String> },
    /// A screen of its own, which nobody sees.
    Virtual(XSession),
}

impl Screen {
    pub(crate) fn new(virtual_screen: bool) -> anyhow::Result<Self> {
        if virtual_screen {
            return Ok(Self::Virtual(XSession::start()?));
        }
        Ok(Self::Desktop { display: std::env::var("DISPLAY").ok() })
    }

    pub(crate) fn display(&self) -> Option<String> {
        match self {
            Self::Desktop { display } => display.clone(),
            Self::Virtual(session) => Some(session.display().to_owned()),
        }
    }
}

/// Who answers the dialogs.
pub(crate) enum Answerer {
    Person,
    /// A scripted hand, on a pointer device that the dialog cannot tell from a mouse.
    Hand(Owner),
}

impl Answerer {
    pub(crate) fn of(hub: &ScratchHub, screen: &Screen) -> anyhow::Result<Self> {
        Ok(match screen {
            Screen::Desktop { .. } => Self::Person,
            Screen::Virtual(session) => Self::Hand(hub.owner(session)?),
        })
    }

    /// Sees to it that the next dialog is answered with this button; a person is told which one is meant.
    pub(crate) async fn answer(
        &self,
        button: &str,
        words: &str,
        shot: Option<Shot<'_>>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Person => {
                say(format_args!("  … a dialog is on your screen: please click {words}"));
                Ok(())
            }
            Self::Hand(owner) => {
                let layout = owner.next_dialog().await?;
                if let Some(shot) = shot {
                    crate::shots::dialog(shot.screen, &layout, shot.place)?;
                }
                owner.answer(&layout, button).await
            }
        }
    }
}

/// A picture to take of a dialog before it is answered.
pub(crate) struct Shot<'a> {
    pub(crate) screen: &'a XSession,
    pub(crate) place: &'a Path,
}

/// Makes a hub with a scratch state folder, not yet running.
pub(crate) async fn prepare_hub(programs: &Path, screen: &Screen) -> anyhow::Result<ScratchHub> {
    let mut env = Vec::new();
    let mut rules = "";
    if let Screen::Desktop { .. } = screen {
        rules = TIME_TO_READ;
        let taken = DESKTOP.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        env.extend(taken);
        // Where it is when no variable says so.
        let cookie = std::env::var_os("HOME").map(|home| Path::new(&home).join(".Xauthority"));
        if let Some(cookie) =
            cookie.filter(|cookie| cookie.exists() && std::env::var_os("XAUTHORITY").is_none())
        {
            env.push(("XAUTHORITY".to_owned(), cookie.display().to_string()));
        }
    }
    ScratchHub::prepare(HubOptions {
        programs: Some(Programs::in_folder(programs)?),
        display: screen.display(),
        browser_rules: rules.to_owned(),
        env,
        ..HubOptions::default()
    })
    .await
}

/// Starts a browser with the extension and waits until it is linked. Says how.
pub(crate) async fn start_browser(hub: &ScratchHub, screen: &Screen) -> anyhow::Result<(Chromium, String)> {
    let profile = hub.folder().join("profile");
    std::fs::create_dir_all(&profile)?;
    let place = profile.to_str().context("the profile's path is no text")?;
    let registered = hub.run(&["extension", "register", "--user-data-dir", place]).await?;
    if registered.code != Some(0) {
        bail!("the relay cannot be registered: {}", registered.stderr);
    }
    let options = chromium::Options {
        headless: false,
        display: screen.display().map(Into::into),
        load_extension: Some(hub.extension()),
        user_data_dir: Some(profile),
        // Beside the dialog rather than under it.
        args: vec!["--window-position=0,0".into(), "--window-size=900,700".into()],
        ..chromium::Options::default()
    };
    let browser = Chromium::launch(options).await?;
    let transport = hub
        .wait_status("a linked browser", LINKED, |status: &Value| {
            status["browsers"][0]["transport"].as_str().map(str::to_owned)
        })
        .await?;
    Ok((browser, transport))
}

/// Where a picture goes, if pictures are wanted.
pub(crate) fn picture(folder: Option<&PathBuf>, name: &str) -> anyhow::Result<Option<PathBuf>> {
    let Some(folder) = folder else { return Ok(None) };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(Some(folder.join(name)))
}
