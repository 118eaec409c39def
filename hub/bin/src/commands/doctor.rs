//! `consentry doctor`

use std::process::ExitCode;

use clap::Args;
use consentry_audit::verify;
use consentry_config::{Home, KeyStore, Settings};
use consentry_policies::hosts::{self, Host, Platform, State};
use consentry_wire::PathName;
use consentry_wire::socket::files;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::{Output, block_on, say};
use crate::client::Client;
use crate::serve::Configuration;
use crate::{embedded, exit};

/// Says what is wrong and the command that mends it
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    output: Output,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    ok: bool,
    says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

fn good(what: &'static str, says: impl Into<String>) -> Finding {
    Finding { what, ok: true, says: says.into(), mend: None }
}

fn bad(what: &'static str, says: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { what, ok: false, says: says.into(), mend: Some(mend.into()) }
}

impl Doctor {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let findings = match Home::from_env() {
            Ok(home) => look(&home),
            Err(error) => vec![bad("state folder", error.to_string(), "set CONSENTRY_HOME to a short path")],
        };
        let well = findings.iter().all(|finding| finding.ok);
        if self.output.json {
            say(json!({ "ok": well, "findings": findings }));
        } else {
            for finding in &findings {
                say(format!("{} {}: {}", if finding.ok { "ok " } else { "!! " }, finding.what, finding.says));
                if let Some(mend) = &finding.mend {
                    say(format!("     → {mend}"));
                }
            }
        }
        Ok(exit::code(if well { exit::OK } else { exit::ATTENTION }))
    }
}

fn look(home: &Home) -> Vec<Finding> {
    let mut findings =
        vec![state_folder(home), configuration(home), keys(home), switch(home), audit(home), extension(home)];
    findings.extend(registration(home));
    match Client::connect(home).and_then(|mut client| client.ask("probe", json!({}))) {
        Ok(probe) => {
            findings.push(good(
                "hub",
                format!("runs on ports {} and {}", probe["ports"]["mcp"], probe["ports"]["control"]),
            ));
            findings.push(browsers(&probe));
            findings.push(dialog(&probe["dialog"]));
        }
        Err(error) => {
            findings.push(bad("hub", format!("{error:#}"), "consentry serve"));
            if let Ok(program) = embedded::beside("consentry-dialog") {
                let probe = block_on(async { Ok(consentry_consent::probe(&program).await) });
                findings.extend(probe.ok().map(|probe| dialog(&json!(probe))));
            }
        }
    }
    findings
}

fn state_folder(home: &Home) -> Finding {
    match home.create() {
        Ok(()) => good("state folder", home.path().display().to_string()),
        Err(error) => bad("state folder", error.to_string(), "make it a folder of yours with mode 0700"),
    }
}

fn configuration(home: &Home) -> Finding {
    let text = match std::fs::read_to_string(home.config()) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return bad("configuration", "there is none; the defaults hold", "consentry setup");
        }
        Err(error) => {
            return bad("configuration", error.to_string(), format!("chmod 600 {}", home.config().display()));
        }
    };
    match Settings::parse(&text, "this machine", &[PathName::browser()]) {
        Ok(settings) => {
            let paths: Vec<String> = settings.rules().paths.keys().map(ToString::to_string).collect();
            good("configuration", format!("paths enabled: {}", paths.join(", ")))
        }
        Err(error) => {
            bad("configuration", format!("config.toml, {error}"), format!("edit {}", home.config().display()))
        }
    }
}

fn keys(home: &Home) -> Finding {
    match KeyStore(home.keys()).read() {
        Ok((_, damaged)) if !damaged.is_empty() => {
            let files: Vec<String> = damaged.iter().map(ToString::to_string).collect();
            bad("keys", files.join("; "), "remove those files, then add the keys again")
        }
        Ok((keys, _)) if keys.is_empty() => {
            bad("keys", "there are none, so no agent can ask", "consentry connect claude-code --apply")
        }
        Ok((keys, _)) => {
            let approved = Configuration::load(home).and_then(|configuration| configuration.keys(home));
            let waiting: Vec<String> = approved
                .map(|ring| {
                    ring.0.into_iter().filter(|key| !key.approved).map(|key| key.name.to_string()).collect()
                })
                .unwrap_or_default();
            if !waiting.is_empty() {
                return bad(
                    "keys",
                    format!("{}: not approved, so they open nothing", waiting.join(", ")),
                    "click Allow in the dialog that a starting hub shows, or `consentry key revoke NAME`",
                );
            }
            good("keys", keys.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(", "))
        }
        Err(error) => bad("keys", error.to_string(), "make the folder readable for you alone"),
    }
}

fn switch(home: &Home) -> Finding {
    if home.disabled().symlink_metadata().is_ok() {
        bad("switch", "everything is disabled", "consentry enable")
    } else {
        good("switch", "on")
    }
}

fn audit(home: &Home) -> Finding {
    match verify(&home.audit()) {
        Ok(Ok(verified)) => good("audit", format!("{} lines, unbroken", verified.lines)),
        Ok(Err(broken)) => bad(
            "audit",
            format!("broken at {broken}"),
            format!("keep a copy, then move {} away", home.audit().display()),
        ),
        Err(error) => bad("audit", error.to_string(), format!("chmod 600 {}", home.audit().display())),
    }
}

fn extension(home: &Home) -> Finding {
    if !embedded::present() {
        return bad("extension", "this build carries none", "cargo xtask build");
    }
    if home.extension().join("manifest.json").exists() {
        good("extension", home.extension().display().to_string())
    } else {
        bad("extension", "the unpacked copy is missing", "consentry extension path")
    }
}

fn registration(home: &Home) -> Vec<Finding> {
    let relay = home.bin().join(files::RELAY);
    let Some(user) = std::env::var_os("HOME").map(std::path::PathBuf::from) else { return Vec::new() };
    let host = embedded::key(home).ok().and_then(|key| Host::new(&[key.id().to_string()], &relay).ok());
    let Some(host) = host else {
        return vec![bad("registration", "the extension's key cannot be used", "consentry setup")];
    };
    let mut wrong = Vec::new();
    let mut right = Vec::new();
    let mut foreign = Vec::new();
    for entry in hosts::status(&user, Platform::CURRENT, &host) {
        match entry.outcome {
            Ok(State::Installed) => right.push(entry.browser.name()),
            Ok(State::Missing) => wrong.push(format!("{}: not registered", entry.browser.name())),
            Ok(State::Stale { why }) => wrong.push(format!("{}: out of date, {why}", entry.browser.name())),
            Ok(State::Foreign { .. }) => {
                foreign.push(format!(
                    "{}: the registration in {} is another installation's",
                    entry.browser.name(),
                    entry.folder.display()
                ));
            }
            Err(error) => wrong.push(format!("{}: {error}", entry.browser.name())),
        }
    }
    if !foreign.is_empty() {
        return vec![bad(
            "registration",
            foreign.join("; "),
            "remove that file if the other installation is gone, then `consentry extension register`",
        )];
    }
    vec![if wrong.is_empty() && !relay.exists() && !right.is_empty() {
        bad("registration", "the relay is missing", "consentry extension register")
    } else if wrong.is_empty() {
        good(
            "registration",
            if right.is_empty() { "no browser was started here yet".to_owned() } else { right.join(", ") },
        )
    } else {
        bad("registration", wrong.join("; "), "consentry extension register")
    }]
}

fn browsers(probe: &Value) -> Finding {
    let links = probe["links"].as_array().map(Vec::as_slice).unwrap_or_default();
    if links.is_empty() {
        let why = probe["last_refusal"]
            .as_str()
            .map_or_else(|| "none is linked".to_owned(), |why| format!("none is linked; last: {why}"));
        return bad(
            "browser",
            why,
            "load the extension in Chrome: `consentry extension path` says from where",
        );
    }
    let name = |link: &Value| {
        format!(
            "{} ({})",
            link["browser"].as_str().unwrap_or_default(),
            link["profile"].as_str().unwrap_or_default()
        )
    };
    good("browser", links.iter().map(name).collect::<Vec<_>>().join(", "))
}

fn dialog(probe: &Value) -> Finding {
    let detail = probe["detail"].as_str().unwrap_or_default().to_owned();
    if probe["ready"] == true {
        good("dialog", detail)
    } else if probe["locked"] == true {
        bad("dialog", "the screen is locked", "unlock it")
    } else {
        bad(
            "dialog",
            detail,
            "log in to a desktop (X11, or Wayland with XWayland), and start the hub from there",
        )
    }
}
