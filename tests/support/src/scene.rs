//! Everything at once: a screen with a window manager, an owner, the hub, an approved key, and a Chromium with the
//! extension, linked.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::cdp::Cdp;
use crate::chromium::{self, Chromium};
use crate::hub::{HubOptions, Owner, Programs, ScratchHub};
use crate::mcp::{Called, McpClient};
use crate::xsession::XSession;

/// How long a browser may take from its start until it is linked, on a busy machine.
const LINKED: Duration = Duration::from_secs(40);
/// How long an approved key may take to open its path.
const APPROVED: Duration = Duration::from_secs(10);
/// Between two looks at a state.
const PAUSE: Duration = Duration::from_millis(25);

/// How the extension reaches the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// A host is registered in the browser's profile.
    #[default]
    Native,
    /// No host is registered; the extension is told port and token.
    WebSocket,
}

/// How a [`Scene`] is to be. The default is headed and native, with a dialog that stands for a minute.
#[derive(Debug, Clone)]
pub struct SceneOptions {
    /// The programs; otherwise those beside the running test.
    pub programs: Option<Programs>,
    /// Without a window for the browser; the dialogs have their screen all the same.
    pub headless: bool,
    /// How the extension reaches the hub.
    pub transport: Transport,
    /// Whether a browser is started at all.
    pub browser: bool,
    /// Lines for `[paths.browser]`. What is weaker than the default is approved by the click that approves the key.
    pub browser_rules: String,
    /// Further variables of the hub's environment.
    pub env: Vec<(String, String)>,
}

impl Default for SceneOptions {
    fn default() -> Self {
        Self {
            programs: None,
            headless: false,
            transport: Transport::Native,
            browser: true,
            browser_rules: "window_seconds = 60".to_owned(),
            env: Vec::new(),
        }
    }
}

/// All of it. Everything ends when this is dropped.
#[derive(Debug)]
pub struct Scene {
    /// A client with the approved key.
    pub client: McpClient,
    /// The approved key, named `tester`.
    pub key: String,
    /// The owner at the screen.
    pub owner: Owner,
    browser: Option<Browser>,
    /// The hub.
    pub hub: ScratchHub,
    /// The screen.
    pub screen: XSession,
    options: SceneOptions,
}

/// A running Chromium with the extension.
#[derive(Debug)]
pub struct Browser {
    /// Its DevTools, for looking at it from outside.
    pub cdp: Cdp,
    /// The browser itself.
    pub chromium: Chromium,
}

impl Scene {
    /// Starts everything and waits until the browser is linked.
    ///
    /// # Errors
    /// When a part does not start, or does not find the others in time.
    pub async fn start(options: SceneOptions) -> anyhow::Result<Self> {
        let screen = XSession::start()?;
        let hub = HubOptions {
            programs: options.programs.clone(),
            display: Some(screen.display().to_owned()),
            browser_rules: options.browser_rules.clone(),
            env: options.env.clone(),
            under: Vec::new(),
        };
        let mut hub = ScratchHub::prepare(hub).await?;
        let owner = hub.owner(&screen)?;
        let key = hub.add_key("tester").await?;
        hub.launch().await?;
        let client = McpClient::new(hub.mcp_url("browser"), &key);
        let mut scene = Self { client, key, owner, browser: None, hub, screen, options };
        // The browser comes up while the owner looks at the dialog.
        let approving = approve(scene.owner.clone(), scene.client.clone());
        if scene.options.browser {
            let (approved, started) = tokio::join!(approving, scene.launch_browser());
            approved?;
            scene.browser = Some(started?);
            scene.linked().await?;
        } else {
            approving.await?;
        }
        Ok(scene)
    }

    async fn launch_browser(&self) -> anyhow::Result<Browser> {
        let profile = self.profile();
        std::fs::create_dir_all(&profile)?;
        if self.options.transport == Transport::Native {
            let place = profile.to_str().context("a profile's path")?;
            let ran = self.hub.run(&["extension", "register", "--user-data-dir", place]).await?;
            if ran.code != Some(0) {
                bail!("the host cannot be registered: {ran:?}");
            }
        }
        let options = chromium::Options {
            headless: self.options.headless,
            display: Some(self.screen.display().into()),
            load_extension: Some(self.hub.extension()),
            user_data_dir: Some(profile),
            // Beside the dialog rather than under it, and drawn by software.
            args: vec!["--window-position=0,0".into(), "--disable-features=Translate".into()],
            url: "about:blank".to_owned(),
        };
        let chromium = Chromium::launch(options).await?;
        let cdp = Cdp::connect(chromium.endpoint()).await?;
        let browser = Browser { cdp, chromium };
        if self.options.transport == Transport::WebSocket {
            let token = std::fs::read_to_string(self.hub.home().join("extension-token"))?;
            let chosen =
                json!({ "transport": "websocket", "port": self.hub.control_port(), "token": token.trim() });
            browser.in_worker(&format!("chrome.storage.local.set({chosen})")).await?;
        }
        Ok(browser)
    }

    /// Starts a browser on the same profile, after the one before it ended, and waits until it is linked.
    ///
    /// # Errors
    /// When one runs, or it is not linked in time.
    pub async fn start_browser(&mut self) -> anyhow::Result<()> {
        if self.browser.is_some() {
            bail!("a browser runs");
        }
        self.browser = Some(self.launch_browser().await?);
        self.linked().await
    }

    /// Kills the browser.
    ///
    /// # Errors
    /// When there is none, or it does not end.
    pub async fn kill_browser(&mut self) -> anyhow::Result<()> {
        let browser = self.browser.take().context("no browser runs")?;
        browser.chromium.kill().await
    }

    /// The browser.
    ///
    /// # Errors
    /// When none runs.
    pub fn browser(&self) -> anyhow::Result<&Browser> {
        self.browser.as_ref().context("no browser runs")
    }

    /// The browser's profile: it outlives the browser.
    pub fn profile(&self) -> PathBuf {
        self.hub.folder().join("profile")
    }

    /// Waits until a browser is linked.
    ///
    /// # Errors
    /// When none is in time.
    pub async fn linked(&self) -> anyhow::Result<()> {
        let is_linked =
            |status: &Value| status["browsers"].as_array().filter(|all| !all.is_empty()).map(|_| ());
        self.hub.wait_status("a linked browser", LINKED, is_linked).await
    }

    /// Makes another key and has it approved.
    ///
    /// # Errors
    /// When the dialog does not come or takes no click.
    pub async fn another_key(&self, name: &str) -> anyhow::Result<McpClient> {
        let client = self.client.clone().with_key(self.hub.add_key(name).await?);
        approve(self.owner.clone(), client.clone()).await?;
        Ok(client)
    }

    /// Asks for control; the owner allows it.
    ///
    /// # Errors
    /// When it is not granted.
    pub async fn grant(&self, purpose: &str, sites: &[&str]) -> anyhow::Result<Grant> {
        self.grant_to(&self.client, purpose, sites).await
    }

    /// Asks for control with another client; the owner allows it.
    ///
    /// # Errors
    /// When it is not granted.
    pub async fn grant_to(&self, client: &McpClient, purpose: &str, sites: &[&str]) -> anyhow::Result<Grant> {
        let asking = client.call("request_control", json!({ "purpose": purpose, "sites": sites }));
        let (asked, clicked) = tokio::join!(asking, self.owner.click("allow"));
        let asked = asked?.ok()?;
        clicked?;
        Grant::of(client, &asked)
    }
}

/// The owner approves what was added or made weaker, and this client's key then opens its path.
///
/// # Errors
/// When no dialog comes, it takes no click, or the key opens nothing after it.
pub async fn approve(owner: Owner, client: McpClient) -> anyhow::Result<()> {
    owner.click("allow").await?;
    let end = Instant::now() + APPROVED;
    loop {
        let (_, ask) = client.request("ping", json!({}));
        let answer = client.raw(&[], &ask).await?;
        if answer.status == 200 {
            return Ok(());
        }
        if Instant::now() >= end {
            bail!("the approved key opens nothing: {} {}", answer.status, answer.text());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A grant and the client that holds it.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Who holds it.
    pub client: McpClient,
    /// The secret.
    pub id: String,
    /// Its four letters.
    pub label: String,
}

impl Grant {
    /// From what `request_control` answered.
    ///
    /// # Errors
    /// When that is no grant.
    pub fn of(client: &McpClient, asked: &Called) -> anyhow::Result<Self> {
        let (id, label) = (asked.field("grant_id"), asked.field("label"));
        if id.is_empty() || label.is_empty() {
            bail!("no grant: {}", asked.raw);
        }
        Ok(Self { client: client.clone(), id: id.to_owned(), label: label.to_owned() })
    }

    /// Calls a tool under it.
    ///
    /// # Errors
    /// When the request itself is refused, or not answered. An error of the tool is a result.
    pub async fn call(&self, tool: &str, mut arguments: Value) -> anyhow::Result<Called> {
        arguments["grant_id"] = self.id.as_str().into();
        self.client.call(tool, arguments).await
    }

    /// Calls a tool that has to succeed.
    ///
    /// # Errors
    /// When it does not.
    pub async fn does(&self, tool: &str, arguments: Value) -> anyhow::Result<Called> {
        let shown = format!("{tool} {arguments}");
        self.call(tool, arguments).await?.ok().context(shown)
    }

    /// Opens a tab and returns its id.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn open(&self, url: &str) -> anyhow::Result<String> {
        Ok(self.does("open_tab", json!({ "url": url })).await?.field("tab").to_owned())
    }

    /// The text that `read_page` gives.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn read(&self, tab: &str) -> anyhow::Result<String> {
        Ok(self.does("read_page", json!({ "tab": tab })).await?.text)
    }
}

/// The ref that an outline has on the first line with this text, such as `button "Send"`.
pub fn ref_of(outline: &str, what: &str) -> anyhow::Result<String> {
    let line = outline.lines().find(|line| line.contains(what));
    let line = line.with_context(|| format!("no {what} in:\n{outline}"))?;
    let found = line
        .split_once(what)
        .and_then(|(_, rest)| rest.split_once('['))
        .and_then(|(_, rest)| rest.split_once(']'));
    Ok(found.with_context(|| format!("no ref on: {line}"))?.0.to_owned())
}

impl Browser {
    /// A DevTools session with the extension's worker, which is woken by that.
    ///
    /// # Errors
    /// When there is no worker in time.
    pub async fn worker(&self) -> anyhow::Result<String> {
        let end = Instant::now() + LINKED;
        loop {
            if let Some(target) = self
                .target(|target| {
                    target["type"] == "service_worker"
                        && target["url"].as_str().is_some_and(|url| url.starts_with("chrome-extension://"))
                })
                .await?
            {
                return self.attach(&target).await;
            }
            if Instant::now() >= end {
                bail!("the extension has no worker");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The first target that fits, by its id.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn target(&self, fits: impl Fn(&Value) -> bool) -> anyhow::Result<Option<String>> {
        // The default filter leaves out no kind that matters here but the browser itself.
        let targets = self.cdp.call(None, "Target.getTargets", json!({})).await?;
        let found = targets["targetInfos"].as_array().and_then(|all| all.iter().find(|target| fits(target)));
        Ok(found.and_then(|target| target["targetId"].as_str()).map(str::to_owned))
    }

    /// A session with a target.
    ///
    /// # Errors
    /// When the browser refuses.
    pub async fn attach(&self, target: &str) -> anyhow::Result<String> {
        let params = json!({ "targetId": target, "flatten": true });
        let attached = self.cdp.call(None, "Target.attachToTarget", params).await?;
        Ok(attached["sessionId"].as_str().context("a session")?.to_owned())
    }

    /// What a script gives on a session, promises awaited.
    ///
    /// # Errors
    /// When it throws.
    pub async fn evaluate(&self, session: &str, script: &str) -> anyhow::Result<Value> {
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.cdp.call(Some(session), "Runtime.evaluate", params).await?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            bail!("{script} threw {thrown}");
        }
        Ok(answer["result"]["value"].take())
    }

    /// What a script gives in the extension's worker.
    ///
    /// # Errors
    /// When there is no worker, or the script throws.
    pub async fn in_worker(&self, script: &str) -> anyhow::Result<Value> {
        let session = self.worker().await?;
        // A worker that has just begun does not know its own browser yet.
        let end = Instant::now() + LINKED;
        let begun = "typeof chrome === 'object' && !!chrome.storage";
        while self.evaluate(&session, begun).await? != Value::Bool(true) && Instant::now() < end {
            tokio::time::sleep(PAUSE).await;
        }
        let value = self.evaluate(&session, script).await;
        // An attached debugger would keep the worker alive where it otherwise ends; a worker that reloaded has none.
        drop(self.cdp.call(None, "Target.detachFromTarget", json!({ "sessionId": session })).await);
        value
    }

    /// The extension's id.
    ///
    /// # Errors
    /// When there is no worker.
    pub async fn extension_id(&self) -> anyhow::Result<String> {
        let id = self.in_worker("chrome.runtime.id").await?;
        Ok(id.as_str().context("an id")?.to_owned())
    }

    /// A page of the extension, such as `popup.html`, loaded in a tab of its own; a session with it.
    ///
    /// # Errors
    /// When the browser refuses.
    pub async fn extension_page(&self, name: &str) -> anyhow::Result<String> {
        let url = format!("chrome-extension://{}/{name}", self.extension_id().await?);
        let session = self.cdp.open_page(&url).await?;
        let script = format!("location.href === '{url}' && document.readyState === 'complete'");
        let end = Instant::now() + LINKED;
        // While it is on its way the page before it may take the question with it.
        while self.evaluate(&session, &script).await.ok() != Some(Value::Bool(true)) {
            if Instant::now() >= end {
                bail!("{url} does not load");
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(session)
    }
}
