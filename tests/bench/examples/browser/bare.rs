//! What the browser itself takes: `chrome.debugger` and native messaging with nothing of ours in between.

use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use consentry_bench::median;
use consentry_test_support::cdp::Cdp;
use consentry_test_support::chromium::{self, Chromium};
use consentry_test_support::pages::Pages;
use consentry_test_support::scene::Browser;
use serde_json::{Value, json};

/// The probe's native host, which is this program.
const HOST: &str = "com.consentry.bench_echo";

/// About what a command of ours takes.
const MESSAGE: usize = 300;

/// More than so much is no message of the probe's.
const LONGEST: u32 = 1 << 20;

/// Milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bare {
    pub(crate) evaluate: f64,
    pub(crate) echo: f64,
}

pub(crate) async fn measure(samples: usize) -> anyhow::Result<Bare> {
    let scratch = tempfile::Builder::new().prefix("consentry-bench-").tempdir()?;
    let extension = scratch.path().join("probe");
    std::fs::create_dir(&extension)?;
    std::fs::write(extension.join("manifest.json"), include_str!("probe/manifest.json"))?;
    std::fs::write(extension.join("worker.js"), include_str!("probe/worker.js"))?;
    let profile = scratch.path().join("profile");
    let options = chromium::Options {
        load_extension: Some(extension),
        user_data_dir: Some(profile.clone()),
        ..chromium::Options::default()
    };
    let chromium = Chromium::launch(options).await?;
    let browser = Browser { cdp: Cdp::connect(chromium.endpoint()).await?, chromium };
    register(&profile, &browser.extension_id().await?)?;
    let pages = Pages::serve().await?;
    let page = json!(pages.put("/", "<title>Empty</title>"));
    let evaluate = times(&browser, &format!("evaluate({samples}, {page})")).await?;
    let echo = times(&browser, &format!("echo({samples}, {}, {MESSAGE})", json!(HOST))).await?;
    browser.chromium.kill().await?;
    Ok(Bare { evaluate, echo })
}

async fn times(browser: &Browser, script: &str) -> anyhow::Result<f64> {
    let times = browser.in_worker(script).await?;
    let times =
        times.as_array().context("the probe gives no times")?.iter().filter_map(Value::as_f64).collect();
    median(times).context("the probe measured nothing")
}

fn register(profile: &Path, id: &str) -> anyhow::Result<()> {
    let folder = profile.join("NativeMessagingHosts");
    std::fs::create_dir_all(&folder)?;
    let manifest = json!({
        "name": HOST, "description": "Echo", "type": "stdio", "path": std::env::current_exe()?,
        "allowed_origins": [format!("chrome-extension://{id}/")],
    });
    std::fs::write(folder.join(format!("{HOST}.json")), manifest.to_string())?;
    Ok(())
}

/// The native host: sends back whatever comes, until the browser closes the pipe.
pub(crate) fn echo() -> anyhow::Result<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut length = [0; 4];
    let mut message = Vec::new();
    while input.read_exact(&mut length).is_ok() {
        let bytes = u32::from_ne_bytes(length);
        if bytes > LONGEST {
            bail!("a message of {bytes} bytes");
        }
        message.resize(bytes as usize, 0);
        input.read_exact(&mut message)?;
        output.write_all(&length)?;
        output.write_all(&message)?;
        output.flush()?;
    }
    Ok(())
}
