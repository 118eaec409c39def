//! One Chromium for all tests that run at the same time, a window for each document, the script in an isolated world.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use anyhow::{Context, anyhow, bail};
use consentry_browser::page::{
    Call, Checked, Locate, Located, Page, Purpose, Read, Ref, SCRIPT, Target, TargetBy,
};
use consentry_test_support::cdp::Cdp;
use consentry_test_support::chromium::{Chromium, Options};
use consentry_test_support::pages::Pages;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// Outlives each test, since the connection's tasks belong to it.
static RUNTIME: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build());
/// Weak: the last test that lets go of the browser ends it.
static BROWSER: Mutex<Weak<Browser>> = Mutex::const_new(Weak::new());
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Runs a test.
pub(crate) fn run(test: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    RUNTIME.as_ref().map_err(|error| anyhow!("{error}"))?.block_on(test)
}

struct Browser {
    cdp: Cdp,
    pages: Pages,
    _chromium: Chromium,
}

async fn browser() -> anyhow::Result<Arc<Browser>> {
    let mut shared = BROWSER.lock().await;
    if let Some(running) = shared.upgrade() {
        return Ok(running);
    }
    let chromium = Chromium::launch(Options::default()).await?;
    let cdp = Cdp::connect(chromium.endpoint()).await?;
    let started = Arc::new(Browser { cdp, pages: Pages::serve().await?, _chromium: chromium });
    *shared = Arc::downgrade(&started);
    Ok(started)
}

/// A document in a window of its own, with the script in an isolated world.
pub(crate) struct Doc {
    browser: Arc<Browser>,
    session: String,
    world: i64,
}

impl Doc {
    /// Serves and opens HTML.
    pub(crate) async fn open(html: &str) -> anyhow::Result<Self> {
        let browser = browser().await?;
        let url = browser.pages.put(&format!("/{}", NEXT.fetch_add(1, Ordering::Relaxed)), html);
        let created = browser
            .cdp
            .call(None, "Target.createTarget", json!({ "url": "about:blank", "newWindow": true }))
            .await?;
        let attach = json!({ "targetId": created["targetId"], "flatten": true });
        let attached = browser.cdp.call(None, "Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str().context("a session")?.to_owned();
        let mut doc = Self { browser, session, world: 0 };
        doc.cdp("Page.enable", json!({})).await?;
        let mut events = doc.browser.cdp.events();
        doc.cdp("Page.navigate", json!({ "url": url })).await?;
        let session = doc.session.clone();
        events
            .next("load event", |event| {
                event.method == "Page.loadEventFired" && event.session.as_ref() == Some(&session)
            })
            .await?;
        doc.inject().await?;
        Ok(doc)
    }

    /// Opens one of `tests/pages`.
    pub(crate) async fn open_file(name: &str) -> anyhow::Result<Self> {
        let path = format!("{}/tests/pages/{name}.html", env!("CARGO_MANIFEST_DIR"));
        Self::open(&std::fs::read_to_string(&path).with_context(|| path.clone())?).await
    }

    async fn inject(&mut self) -> anyhow::Result<()> {
        let tree = self.cdp("Page.getFrameTree", json!({})).await?;
        let frame = json!({ "frameId": tree["frameTree"]["frame"]["id"], "worldName": "consentry" });
        let world = self.cdp("Page.createIsolatedWorld", frame).await?;
        self.world = world["executionContextId"].as_i64().context("a world")?;
        // Twice, since the second one must do no harm.
        self.script(SCRIPT).await?;
        self.script(SCRIPT).await?;
        Ok(())
    }

    /// The execution context that the script lives in.
    pub(crate) fn world(&self) -> i64 {
        self.world
    }

    /// A DevTools call on this document's session.
    pub(crate) async fn cdp(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.browser.cdp.call(Some(&self.session), method, params).await
    }

    async fn evaluate(&self, mut params: Value) -> anyhow::Result<Value> {
        params["awaitPromise"] = true.into();
        params["returnByValue"] = true.into();
        let mut answer = self.cdp("Runtime.evaluate", params).await?;
        if let Some(exception) = answer.get("exceptionDetails") {
            bail!("{exception}");
        }
        Ok(answer["result"]["value"].take())
    }

    /// Evaluates where the script lives.
    pub(crate) async fn script(&self, expression: &str) -> anyhow::Result<Value> {
        self.evaluate(json!({ "expression": expression, "contextId": self.world })).await
    }

    /// Evaluates where the page's own scripts live.
    pub(crate) async fn page(&self, expression: &str) -> anyhow::Result<Value> {
        self.evaluate(json!({ "expression": expression })).await
    }

    /// Calls a function of the script.
    pub(crate) async fn call<C: Call>(&self, call: &C) -> anyhow::Result<C::Answer> {
        let answer = self.script(&call.expression()?).await?;
        serde_json::from_value(answer.clone()).with_context(|| format!("{}: {answer}", C::FUNCTION))
    }

    /// Reads a page of the document.
    pub(crate) async fn read(&self, read: &Read) -> anyhow::Result<Page> {
        match self.call(read).await? {
            Checked::Ok(page) => Ok(page),
            other => bail!("{other:?}"),
        }
    }

    /// The whole outline.
    pub(crate) async fn outline(&self) -> anyhow::Result<String> {
        Ok(self.read(&Read { max_chars: 1_000_000, ..Read::default() }).await?.text)
    }

    /// Reads the outline and returns the ref in the only line that contains `part`.
    pub(crate) async fn find(&self, part: &str) -> anyhow::Result<Ref> {
        let outline = self.outline().await?;
        let mut lines = outline.lines().filter(|line| line.contains(part));
        let line = lines.next().with_context(|| format!("{part} is not in\n{outline}"))?;
        anyhow::ensure!(lines.next().is_none(), "{part} is there more than once in\n{outline}");
        reference_in(line)
    }

    /// Locates for a purpose.
    pub(crate) async fn locate(&self, target: TargetBy, purpose: Purpose) -> anyhow::Result<Located> {
        self.call(&Locate { target, purpose }).await
    }

    /// Where to click an element.
    pub(crate) async fn aim(&self, selector: &str) -> anyhow::Result<Target> {
        match self.locate(TargetBy::Selector(selector.to_owned()), Purpose::Click).await? {
            Located::Ok(target) => Ok(target),
            other => bail!("{selector}: {other:?}"),
        }
    }

    /// A real click.
    pub(crate) async fn click(&self, target: &Target) -> anyhow::Result<()> {
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": target.point.x, "y": target.point.y, "button": "left", "clickCount": 1 });
            self.cdp("Input.dispatchMouseEvent", event).await?;
        }
        Ok(())
    }
}

/// The last ref in a line.
pub(crate) fn reference_in(line: &str) -> anyhow::Result<Ref> {
    let mut tokens = line.split_whitespace().rev();
    let token = tokens.find_map(|token| token.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
    token.with_context(|| format!("no ref in {line}"))
}
