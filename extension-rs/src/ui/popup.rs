//! The popup: how the link stands, who works here, and Stop.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::futures::spawn_local;
use serde_json::json;
use web_sys::Element;

use super::dom::{self, Page};
use super::snapshot::{GrantView, Order, Snapshot};
use super::standing;
use crate::chrome::time::Timer;
use crate::chrome::{self, runtime, tabs};
use crate::guard::TabFacts;
use crate::link::status::Status;
use crate::worker::all_tabs;

const AGAIN_MS: f64 = 1_000.0;

struct Popup {
    page: Page,
    /// What the list was made from; it is made anew only when that changes, so that the focus stays.
    listed: RefCell<Vec<(GrantView, Vec<String>)>>,
    /// Where the time left of each grant stands.
    clocks: RefCell<Vec<Element>>,
    again: RefCell<Option<Timer>>,
}

pub(super) fn start(page: Page) {
    let popup = Rc::new(Popup {
        page: page.clone(),
        listed: RefCell::default(),
        clocks: RefCell::default(),
        again: RefCell::default(),
    });
    standing::let_copy(&page);
    for (id, order) in
        [("stop", Order::Stop), ("disable", Order::DisableAll), ("status-page", Order::OpenStatus)]
    {
        let popup = Rc::clone(&popup);
        page.on_click(id, move || refresh(&popup, order));
    }
    page.on_click("options", || {
        spawn_local(async {
            // The browser shows its own words when it cannot.
            let _ = chrome::settle(runtime::open_options_page()).await;
        });
    });
    refresh(&popup, Order::Wake);
}

fn refresh(popup: &Rc<Popup>, order: Order) {
    let popup = Rc::clone(popup);
    popup.again.take();
    spawn_local(async move {
        let answer = standing::ask(order).await;
        if let Ok(snapshot) = answer {
            popup.show(&snapshot).await;
        }
        let again = Rc::clone(&popup);
        // A timer may not be dropped while it runs, so what replaces it runs after it.
        let timer = Timer::after(AGAIN_MS, move || spawn_local(async move { refresh(&again, Order::Show) }));
        popup.again.replace(Some(timer));
    });
}

impl Popup {
    async fn show(&self, snapshot: &Snapshot) {
        standing::show(&self.page, snapshot);
        let linked = matches!(snapshot.status, Status::Linked { .. });
        for id in ["status-page", "disable"] {
            if let Some(button) = self.page.find(id) {
                let _ = if linked {
                    button.remove_attribute("disabled")
                } else {
                    button.set_attribute("disabled", "")
                };
            }
        }
        self.page.show("stop", !snapshot.grants.is_empty());
        self.page.show("nobody", snapshot.grants.is_empty());
        let titles = if snapshot.grants.iter().any(|grant| !grant.tabs.is_empty()) {
            all_tabs().await
        } else {
            Vec::new()
        };
        let list: Vec<_> = snapshot.grants.iter().map(|grant| described(grant, &titles)).collect();
        if *self.listed.borrow() != list {
            self.list(&list);
            self.listed.replace(list);
        }
        for (clock, grant) in self.clocks.borrow().iter().zip(&snapshot.grants) {
            clock.set_text_content(Some(&left(grant.left_ms)));
        }
    }

    fn list(&self, grants: &[(GrantView, Vec<String>)]) {
        let Some(list) = self.page.find("grants") else { return };
        list.set_text_content(None);
        let clocks = grants.iter().filter_map(|(grant, titles)| self.grant(&list, grant, titles)).collect();
        self.clocks.replace(clocks);
    }

    fn grant(&self, list: &Element, grant: &GrantView, titles: &[String]) -> Option<Element> {
        let page = &self.page;
        let item = page.add(list, "li", "grant", "")?;
        let who = page.add(&item, "div", "who", "")?;
        page.add(&who, "b", "", &grant.client)?;
        page.add(&who, "span", "label", &grant.label)?;
        let clock = page.add(&who, "span", "left quiet", "")?;
        page.add(&item, "q", "", &grant.purpose)?;
        if !grant.tabs.is_empty() {
            let rows = page.add(&item, "div", "tabs", "")?;
            for (tab, title) in grant.tabs.iter().copied().zip(titles) {
                let button = page.add(&rows, "button", "tab", "")?;
                let _ = button.set_attribute("type", "button");
                let _ = button.set_attribute("title", "Go to this tab");
                page.add(&button, "span", "", title)?;
                dom::on(&button, "click", move |_| spawn_local(go_to(tab)));
            }
        }
        Some(clock)
    }
}

/// A grant without its running clock, with its tabs' titles.
fn described(grant: &GrantView, tabs: &[TabFacts]) -> (GrantView, Vec<String>) {
    let title = |number: &u32| {
        let tab = tabs.iter().find(|tab| tab.id == *number);
        tab.map(|tab| if tab.title.is_empty() { &tab.url } else { &tab.title })
            .filter(|title| !title.is_empty())
            .map_or_else(|| "A tab".to_owned(), |title| title.chars().take(120).collect())
    };
    (GrantView { left_ms: 0, ..grant.clone() }, grant.tabs.iter().map(title).collect())
}

async fn go_to(tab: u32) {
    let shown = chrome::fetch::<TabFacts>(tabs::update(tab, &chrome::to_js(&json!({"active": true})))).await;
    // One that has just been closed is not gone to.
    if let Ok(facts) = shown {
        let _ =
            chrome::settle(tabs::update_window(facts.window_id, &chrome::to_js(&json!({"focused": true}))))
                .await;
    }
}

/// "12 min left".
fn left(milliseconds: u64) -> String {
    let seconds = milliseconds.div_ceil(1000);
    match seconds {
        0..=90 => format!("{seconds} s left"),
        _ => format!("{} min left", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_short_and_never_too_much_by_a_unit() {
        assert_eq!(left(500), "1 s left");
        assert_eq!(left(90_000), "90 s left");
        assert_eq!(left(91_000), "2 min left");
        assert_eq!(left(1_800_000), "30 min left");
    }
}
