//! How tests share a scene: those of one stage run one after the other in it, and it is built anew after a failure.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, anyhow};
use consentry_test_support::link::FakeBrowser;
use consentry_test_support::pages::Pages;
use consentry_test_support::scene::{Scene, SceneOptions, Transport};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// No test takes longer, but for those that repeat themselves a thousand times.
const LIMIT: Duration = Duration::from_secs(150);
const SLOW_LIMIT: Duration = Duration::from_secs(1800);
/// How many lines of the hub's log a failure shows.
const LOG_TAIL: usize = 12;

/// Whether everything runs that takes long.
fn slow() -> bool {
    std::env::var_os("CONSENTRY_SLOW").is_some_and(|value| value == "1")
}

/// Races that depend on luck are tried this often, and with `CONSENTRY_SLOW=1` that often.
pub(crate) fn rounds(quick: usize, often: usize) -> usize {
    if slow() { often } else { quick }
}

fn limit() -> Duration {
    if slow() { SLOW_LIMIT } else { LIMIT }
}

pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "without a runtime there are no tests")]
    Runtime::new().expect("a runtime")
});

/// What a test works in.
pub(crate) struct Set {
    pub(crate) scene: Scene,
    pub(crate) pages: Pages,
    _fake: Option<FakeBrowser>,
}

impl std::ops::Deref for Set {
    type Target = Scene;
    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl std::ops::DerefMut for Set {
    fn deref_mut(&mut self) -> &mut Scene {
        &mut self.scene
    }
}

impl Set {
    /// The site of the pages, as `request_control` takes it.
    pub(crate) fn site(&self) -> String {
        self.pages.url("")
    }

    /// The same server under another name: another site.
    pub(crate) fn other_site(&self) -> String {
        format!("http://localhost:{}", self.pages.port())
    }

    async fn new(stage: &Stage) -> anyhow::Result<Self> {
        let scene = Scene::start(stage.options()).await?;
        let fake = match stage.kind {
            Kind::Fake | Kind::Silent => Some(FakeBrowser::link(&scene.hub, "fake0001").await?),
            _ => None,
        };
        Ok(Self { scene, pages: Pages::serve().await?, _fake: fake })
    }

    /// Nothing of the test before it is left: no grant, no tab.
    async fn tidy(&self) -> anyhow::Result<()> {
        self.hub.run(&["kill", "--all"]).await?;
        let Ok(browser) = self.browser() else { return Ok(()) };
        let targets = browser.cdp.call(None, "Target.getTargets", serde_json::json!({})).await?;
        let pages = targets["targetInfos"].as_array().into_iter().flatten();
        for page in pages.filter(|target| target["type"] == "page" && target["url"] != "about:blank") {
            let close = serde_json::json!({ "targetId": page["targetId"] });
            // A page that asks before it is left stays until it is answered, and then is gone.
            drop(browser.cdp.call(None, "Target.closeTarget", close).await);
        }
        Ok(())
    }
}

/// What kind of scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Headed,
    Headless,
    WebSocket,
    Fake,
    Silent,
}

/// Where tests play.
pub(crate) struct Stage {
    name: &'static str,
    kind: Kind,
    set: Mutex<Option<Set>>,
}

/// A window on a screen with a window manager; everything is asked about as by default.
pub(crate) static HEADED: Stage = Stage::new("headed", Kind::Headed);
/// Without a window; scripts are not asked about.
pub(crate) static HEADLESS: Stage = Stage::new("headless", Kind::Headless);
/// Without a window, linked by WebSocket; scripts are not asked about.
pub(crate) static WEBSOCKET: Stage = Stage::new("websocket", Kind::WebSocket);
/// A browser that does nothing, for tests of asking alone.
pub(crate) static ASKING: Stage = Stage::new("asking", Kind::Fake);
/// The same, where dialogs stand for three seconds: for those that nobody answers.
pub(crate) static SILENT: Stage = Stage::new("silent", Kind::Silent);

impl Stage {
    const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, set: Mutex::const_new(None) }
    }

    fn options(&self) -> SceneOptions {
        let rules = "cooldown_seconds = 0\ngrants = 8\nwindow_seconds";
        match self.kind {
            Kind::Headed => {
                SceneOptions { browser_rules: format!("{rules} = 60"), ..SceneOptions::default() }
            }
            Kind::Headless => SceneOptions {
                headless: true,
                browser_rules: format!("{rules} = 60\nevaluate = \"on\""),
                ..SceneOptions::default()
            },
            Kind::WebSocket => SceneOptions {
                headless: true,
                transport: Transport::WebSocket,
                browser_rules: format!("{rules} = 60\nevaluate = \"on\""),
                ..SceneOptions::default()
            },
            Kind::Fake | Kind::Silent => SceneOptions {
                browser: false,
                browser_rules: format!("{rules} = {}", if self.kind == Kind::Silent { 3 } else { 60 }),
                ..SceneOptions::default()
            },
        }
    }

    /// A test in this stage's scene.
    pub(crate) fn test(
        &'static self,
        name: &'static str,
        test: impl for<'a> FnOnce(&'a mut Set) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>
        + Send
        + 'static,
    ) -> Test {
        let run = move || {
            RUNTIME.block_on(async {
                let mut place = self.set.lock().await;
                // Put back only after success: what a failed test left behind is nobody's scene.
                let mut set = match place.take() {
                    Some(set) => set,
                    None => Set::new(self).await.with_context(|| format!("the scene {}", self.name))?,
                };
                set.tidy().await.context("tidying the scene before the test")?;
                let done = tokio::time::timeout(limit(), test(&mut set)).await;
                match done {
                    Ok(Ok(())) => {
                        *place = Some(set);
                        Ok(())
                    }
                    Ok(Err(error)) => Err(with_log(&error, &set.hub.log())),
                    Err(_) => {
                        Err(with_log(&anyhow!("not over after {} s", limit().as_secs()), &set.hub.log()))
                    }
                }
            })
        };
        Test { stage: self.name, trial: Trial::test(name, move || run().map_err(failed)) }
    }

    async fn end(&self) {
        self.set.lock().await.take();
    }
}

/// A test that builds what it needs itself.
pub(crate) fn alone(
    name: &'static str,
    test: impl FnOnce() -> Pin<Box<dyn Future<Output = anyhow::Result<()>>>> + Send + 'static,
) -> Test {
    let run = move || {
        RUNTIME.block_on(async {
            tokio::time::timeout(limit(), test())
                .await
                .with_context(|| format!("not over after {} s", limit().as_secs()))?
        })
    };
    Test { stage: "alone", trial: Trial::test(name, move || run().map_err(failed)) }
}

fn with_log(error: &anyhow::Error, log: &str) -> anyhow::Error {
    // Without the places of dialogs' buttons.
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with('{')).collect();
    let tail = lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n");
    anyhow!("{}\n--- the hub's log ends with:\n{tail}", in_short(error))
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn failed(error: anyhow::Error) -> Failed {
    Failed::from(in_short(&error))
}

/// The chain, and of the way to it only what lies in these tests.
fn in_short(error: &anyhow::Error) -> String {
    let way = error.backtrace().to_string();
    let ours = |line: &&str| line.contains("at ./tests/e2e/") && !line.contains("/stage.rs");
    let way: Vec<&str> = way.lines().filter(ours).map(str::trim).collect();
    format!("{error:#}\n{}", way.join("\n"))
}

/// A test and where it plays.
pub(crate) struct Test {
    stage: &'static str,
    trial: Trial,
}

/// Deals the tests out so that neighbours play on different stages: two run at a time.
pub(crate) fn interleaved(tests: Vec<Test>) -> Vec<Trial> {
    let mut stages: Vec<(&str, Vec<Trial>)> = Vec::new();
    for test in tests {
        match stages.iter_mut().find(|(name, _)| *name == test.stage) {
            Some((_, trials)) => trials.push(test.trial),
            None => stages.push((test.stage, vec![test.trial])),
        }
    }
    // The longest first, or it would be left over at the end with nobody beside it.
    for (_, trials) in &mut stages {
        trials.reverse();
    }
    let mut dealt = Vec::new();
    while let Some((_, trials)) =
        stages.iter_mut().max_by_key(|(_, trials)| trials.len()).filter(|(_, t)| !t.is_empty())
    {
        dealt.extend(trials.pop());
    }
    dealt
}

/// Ends every scene.
pub(crate) fn end() {
    RUNTIME.block_on(async {
        for stage in [&HEADED, &HEADLESS, &WEBSOCKET, &ASKING, &SILENT] {
            stage.end().await;
        }
    });
}

/// Makes tests out of async functions, named `module::function`.
macro_rules! tests {
    (alone; $($test:ident),* $(,)?) => {
        vec![$($crate::stage::alone(
            concat!(module_path!(), "::", stringify!($test)).trim_start_matches("e2e::"),
            || Box::pin($test()),
        )),*]
    };
    ($stage:expr; $($test:ident),* $(,)?) => {
        vec![$($stage.test(
            concat!(module_path!(), "::", stringify!($test)).trim_start_matches("e2e::"),
            |set| Box::pin($test(set)),
        )),*]
    };
}
pub(crate) use tests;

/// Asserts that a call was refused with this code, and gives the whole answer back.
pub(crate) fn refused(
    called: anyhow::Result<consentry_test_support::mcp::Called>,
    code: &str,
) -> anyhow::Result<consentry_test_support::mcp::Called> {
    let called = called?;
    anyhow::ensure!(called.code() == code, "expected {code}: {}", called.raw);
    Ok(called)
}

/// The rows of a list in a status.
pub(crate) fn rows<'a>(state: &'a Value, list: &str) -> &'a [Value] {
    state[list].as_array().map(Vec::as_slice).unwrap_or_default()
}
