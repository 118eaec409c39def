//! The options page.

use std::rc::Rc;

use futures_util::future::join;
use js_sys::futures::spawn_local;

use super::dom::{self, Page};
use super::snapshot::Order;
use super::standing;
use crate::chrome::time::sleep;
use crate::chrome::{self, runtime, storage};
use crate::link::settings::{Chosen, DEFAULT_PORT, Settings, Stored, Transport};

const AGAIN_MS: f64 = 1_000.0;

struct Options {
    page: Page,
    /// What the organisation set.
    managed: Chosen,
}

pub(super) fn start(page: Page) {
    standing::let_copy(&page);
    spawn_local(async move {
        let (stored, managed) = join(
            chrome::fetch::<Stored>(storage::get_local()),
            chrome::fetch::<Chosen>(storage::get_managed()),
        )
        .await;
        let stored = stored.unwrap_or_default();
        // Where nobody manages the browser there may be no managed storage at all.
        let options = Rc::new(Options { page: page.clone(), managed: managed.unwrap_or_default() });
        options.fill(&stored);
        if let Some(form) = page.find("form") {
            let options = Rc::clone(&options);
            dom::on(&form, "submit", move |event| {
                event.prevent_default();
                spawn_local(Rc::clone(&options).save());
            });
        }
        loop {
            if let Ok(snapshot) = standing::ask(Order::Show).await {
                standing::show(&page, &snapshot);
            }
            sleep(AGAIN_MS).await;
        }
    });
}

impl Options {
    fn fill(&self, stored: &Stored) {
        let settings = Settings::resolve(&stored.chosen, &self.managed);
        let managed = &self.managed;
        for radio in self.page.radios("transport") {
            radio.set_checked(radio.value() == word(settings.transport));
            radio.set_disabled(managed.transport.is_some());
        }
        let port = stored.chosen.port.or(managed.port).map(|_| settings.port.to_string());
        // A token that the organisation set is not shown to whoever looks at the page's source.
        let token =
            if managed.token.is_some() { "set by your organisation" } else { settings.token.as_str() };
        for (id, value, locked) in [
            ("port", port.unwrap_or_default().as_str(), managed.port.is_some()),
            ("name", settings.name.as_str(), managed.name.is_some()),
            ("token", token, managed.token.is_some()),
        ] {
            if let Some(input) = self.page.input(id) {
                input.set_value(value);
                input.set_disabled(locked);
                if locked {
                    self.page.set_text(&format!("{id}-help"), "Set by your organisation.");
                }
            }
        }
        self.page.show("managed", *managed != Chosen::default());
        let version: Manifest = chrome::from_js(&runtime::get_manifest()).unwrap_or_default();
        self.page.set_text("version", &version.version);
        let address = runtime::get_url("");
        let id = address.trim_start_matches("chrome-extension://").trim_end_matches('/');
        self.page.set_text("id", id);
        let profile = stored.profile.as_ref().map_or("none yet", |profile| profile.as_str());
        self.page.set_text("profile", profile);
    }

    async fn save(self: Rc<Self>) {
        let value = |id: &str| self.page.input(id).map(|input| input.value()).unwrap_or_default();
        let port = value("port").trim().to_owned();
        let number = if port.is_empty() { Some(DEFAULT_PORT) } else { port.parse().ok().filter(|n| *n != 0) };
        if let Some(input) = self.page.input("port") {
            let _ = input.set_attribute("aria-invalid", if number.is_none() { "true" } else { "false" });
        }
        let Some(number) = number else {
            return self.page.set_text("saved", "The port must be a number from 1 to 65535.");
        };
        let transport = self.page.radios("transport").into_iter().find(|radio| radio.checked());
        let transport = transport.and_then(|radio| chrome::from_js(&radio.value().into()).ok());
        // What the organisation set stays out of the owner's own settings.
        let managed = &self.managed;
        let chosen = Chosen {
            transport: transport.filter(|_| managed.transport.is_none()),
            port: Some(number).filter(|_| managed.port.is_none()),
            token: Some(value("token").trim().to_owned()).filter(|_| managed.token.is_none()),
            name: Some(value("name").trim().to_owned()).filter(|_| managed.name.is_none()),
        };
        let saved = chrome::settle(storage::set_local(&chrome::to_js(&chosen))).await;
        let words = saved.map_or_else(|error| format!("Not saved: {error}"), |_| "Saved.".to_owned());
        self.page.set_text("saved", &words);
    }
}

#[derive(Default, serde::Deserialize)]
struct Manifest {
    version: String,
}

fn word(transport: Transport) -> &'static str {
    match transport {
        Transport::Auto => "auto",
        Transport::Native => "native",
        Transport::WebSocket => "websocket",
    }
}
