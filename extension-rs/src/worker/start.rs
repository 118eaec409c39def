//! The worker's first moments.

use std::pin::pin;
use std::rc::Rc;

use consentry_wire::frame::{Hello, StopBy};
use consentry_wire::{ProfileId, proof, version};
use futures_util::future::{Either, join, select};
use js_sys::Reflect;
use js_sys::futures::spawn_local;
use serde::Deserialize;
use serde_json::json;
use wasm_bindgen::prelude::*;

use super::Worker;
use crate::chrome::time::sleep;
use crate::chrome::{self, ChromeError, debugger, runtime, storage};
use crate::debugger::Source;
use crate::guard::Halt;
use crate::link::settings::{Chosen, Settings, Stored};
use crate::ui::snapshot::Order;

/// The longest that a lost link goes unnoticed when the worker had been stopped; the browser allows no less.
const ALARM_MINUTES: f64 = 0.5;

/// How long the link waits for the organisation's settings.
const PATIENCE_MS: f64 = 150.0;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(thread_local_v2, js_name = navigator)]
    static NAVIGATOR: JsValue;
}

/// Starts the worker. Every listener is registered before this returns: the browser hands the event that
/// woke a worker only to those that stand at the end of its first turn.
pub(crate) fn start() {
    let name = chrome::random::<8>().map_or_else(|_| "unnamed".to_owned(), |bytes| proof::hex(&bytes));
    let worker = Worker::new(name);
    listen(&worker);
    spawn_local(async move {
        // An update of the extension takes its alarms away.
        let alarm = chrome::to_js(&json!({ "periodInMinutes": ALARM_MINUTES }));
        if let Err(error) = chrome::settle(runtime::create_alarm("link", &alarm)).await {
            worker.warn(&format!("making the alarm: {error}"));
        }
        worker.debugger.let_go_of_leftovers().await;
        worker.tick();
        configure(worker).await;
    });
}

fn listen(worker: &Rc<Worker>) {
    let this = Rc::clone(worker);
    let event = Closure::new(move |source: JsValue, method: String, params: JsValue| {
        // Most events of a busy page are none that anybody asked for, and are dropped unread.
        if !consentry_wire::cdp::passes(&method) {
            return;
        }
        if let Ok(source) = chrome::from_js::<Source>(&source) {
            this.debugger.event(source, method, &params);
        }
    });
    debugger::on_event(&chrome::forever::<dyn FnMut(JsValue, String, JsValue)>(event));

    let this = Rc::clone(worker);
    let detached = Closure::new(move |source: JsValue, reason: String| {
        let Ok(Source { tab_id: Some(tab), session_id: None }) = chrome::from_js(&source) else { return };
        this.debugger.detached(tab, reason == "target_closed");
        // Cancel on the browser's own bar says "stop", not "stop on this tab".
        if reason == "canceled_by_user" && !this.guard.borrow().is_halted() {
            this.halt(Halt::Stop(StopBy::Infobar));
        }
        this.show_badge();
    });
    debugger::on_detach(&chrome::forever::<dyn FnMut(JsValue, String)>(detached));

    let this = Rc::clone(worker);
    let message = Closure::new(move |message: JsValue, sender: JsValue, reply: js_sys::Function| {
        let ours = chrome::from_js::<Sender>(&sender).is_ok_and(|sender| sender.is_own_page());
        if let (true, Ok(order)) = (ours, chrome::from_js::<Order>(&message)) {
            let answer = chrome::to_js(&this.order(order));
            // The page may have been closed meanwhile.
            let _ = reply.call1(&JsValue::NULL, &answer);
        }
    });
    runtime::on_message(&chrome::forever::<dyn FnMut(JsValue, JsValue, js_sys::Function)>(message));

    let this = Rc::clone(worker);
    let wake = chrome::forever::<dyn FnMut()>(Closure::new(move || this.link.wake()));
    runtime::on_alarm(&wake);
    // Without this one no worker starts with the browser.
    runtime::on_startup(&wake);
    runtime::on_installed(&wake);

    let this = Rc::clone(worker);
    let update = Closure::new(move || {
        this.reload_due.set(true);
        this.reload_if_due();
    });
    runtime::on_update_available(&chrome::forever::<dyn FnMut()>(update));

    let this = Rc::clone(worker);
    let changed = Closure::new(move || spawn_local(configure(Rc::clone(&this))));
    storage::on_changed(&chrome::forever::<dyn FnMut()>(changed));
}

/// Reads the settings and links with them.
async fn configure(worker: Rc<Worker>) {
    // Right after the browser's start the organisation's settings take seconds, which no link waits for.
    let organisation = Box::pin(organisation());
    let managed = match select(organisation, pin!(sleep(PATIENCE_MS))).await {
        Either::Left((managed, _)) => managed,
        Either::Right(((), late)) => {
            let again = Rc::clone(&worker);
            spawn_local(async move {
                let managed = late.await;
                link_with(&again, &managed).await;
            });
            Chosen::default()
        }
    };
    link_with(&worker, &managed).await;
}

async fn link_with(worker: &Worker, managed: &Chosen) {
    // One after the other, or two would each make a profile's id.
    let _turn = worker.configuring.lock().await;
    match settings(managed).await {
        Ok((settings, mut hello)) => {
            hello.worker = worker.name.clone();
            worker.link.configure(settings, hello);
        }
        Err(error) => worker.warn(&format!("reading the settings: {error}")),
    }
}

async fn organisation() -> Chosen {
    // Where nobody manages the browser there may be no managed storage at all.
    chrome::fetch(storage::get_managed()).await.unwrap_or_default()
}

async fn settings(managed: &Chosen) -> Result<(Settings, Hello), ChromeError> {
    #[derive(Deserialize)]
    struct Itself {
        version: String,
        #[serde(rename = "installType", default)]
        install: String,
    }
    let (stored, itself) =
        join(chrome::fetch::<Stored>(storage::get_local()), chrome::fetch::<Itself>(runtime::get_self()))
            .await;
    let (stored, itself) = (stored?, itself?);
    let settings = Settings::resolve(&stored.chosen, managed);
    let profile = match stored.profile {
        Some(profile) => profile,
        None => make_profile().await?,
    };
    let hello = Hello {
        version: version::CURRENT,
        build: itself.version,
        profile,
        worker: String::new(),
        name: settings.name.clone(),
        browser: browser_name(),
        install: itself.install,
    };
    Ok((settings, hello))
}

async fn make_profile() -> Result<ProfileId, ChromeError> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let bytes: [u8; 8] = chrome::random()?;
    let text: String = bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % 32])).collect();
    let profile: ProfileId = text.parse().map_err(|_| ChromeError("making a profile's id".into()))?;
    chrome::settle(storage::set_local(&chrome::to_js(&json!({ "profile": profile })))).await?;
    Ok(profile)
}

/// "Chromium 156": the brand that is not the engine's own nor made up, or else the engine.
fn browser_name() -> String {
    #[derive(Deserialize)]
    struct Agent {
        brands: Vec<Brand>,
    }
    let agent = NAVIGATOR.with(|navigator| Reflect::get(navigator, &"userAgentData".into()));
    let agent = agent.map_err(ChromeError::from).and_then(|agent| chrome::from_js::<Agent>(&agent));
    agent.ok().and_then(|agent| best(&agent.brands)).unwrap_or_else(|| "unknown browser".to_owned())
}

#[derive(Deserialize)]
struct Brand {
    brand: String,
    version: String,
}

fn best(brands: &[Brand]) -> Option<String> {
    let engine = |brand: &&Brand| brand.brand == "Chromium";
    let own = brands.iter().find(|brand| !engine(brand) && !brand.brand.contains("Not"));
    let brand = own.or_else(|| brands.iter().find(engine))?;
    Some(format!("{} {}", brand.brand, brand.version))
}

#[derive(Deserialize)]
struct Sender {
    #[serde(default)]
    url: String,
}

impl Sender {
    fn is_own_page(&self) -> bool {
        self.url.starts_with(&runtime::get_url(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_named_by_its_own_brand() {
        let brand = |brand: &str| Brand { brand: brand.into(), version: "156".into() };
        let made_up = || brand("Not=A?Brand");
        let of = |brands: &[Brand]| best(brands);
        assert_eq!(
            of(&[made_up(), brand("Chromium"), brand("Google Chrome")]).as_deref(),
            Some("Google Chrome 156")
        );
        assert_eq!(of(&[brand("Chromium"), made_up()]).as_deref(), Some("Chromium 156"));
        assert_eq!(of(&[made_up()]), None);
    }
}
