//! What the hub can ask for, one function each. Results are JSON text.

use std::rc::Rc;

use consentry_wire::frame::{NavigateTo, Op};
use consentry_wire::held::Touch;
use consentry_wire::{ErrorCode, Failure, GrantLabel};
use serde::Deserialize;
use serde_json::json;
use wasm_bindgen::JsValue;

use super::Worker;
use crate::chrome::time::moment;
use crate::chrome::{self, ChromeError, tabs};
use crate::debugger::failure;
use crate::guard::TabFacts;

type Answer = Result<String, Failure>;

/// The answer of what has nothing to tell.
const NOTHING: &str = "{}";

/// Colours of tab groups, so that two grants at the same time look different.
const COLOURS: [&str; 6] = ["blue", "purple", "cyan", "pink", "green", "orange"];

pub(super) async fn run(worker: Rc<Worker>, grant: GrantLabel, deadline_ms: f64, op: Op) -> Answer {
    match op {
        Op::ListTabs => list_tabs(&worker, &grant).await,
        Op::OpenTab { url, group } => open_tab(&worker, &grant, &url, &group).await,
        Op::Navigate { tab, to } => navigate(&worker, &grant, tab, to).await,
        Op::Activate { tab } => activate(&worker, &grant, tab).await,
        Op::Close { tab } => close(&worker, &grant, tab).await,
        Op::Attach { tab } => {
            let answer = worker.debugger.attach(grant, tab, deadline_ms).await;
            worker.show_badge();
            answer
        }
        Op::Detach { tab } => {
            worker.debugger.release(&grant, tab).await;
            Ok(NOTHING.to_owned())
        }
        Op::Cdp { tab, session, method, params, document } => {
            let session = session.as_deref();
            worker.debugger.command(&grant, tab, session, &method, &params, document.as_ref()).await
        }
    }
}

async fn list_tabs(worker: &Worker, grant: &GrantLabel) -> Answer {
    let all: Vec<TabFacts> = told(chrome::fetch(tabs::query(&chrome::to_js(&json!({})))).await)?;
    let list = worker.guard.borrow().list(grant, all, moment())?;
    Ok(json!({ "tabs": list }).to_string())
}

async fn open_tab(worker: &Worker, grant: &GrantLabel, url: &str, group: &str) -> Answer {
    worker.guard.borrow().may_open(grant, url, moment())?;
    let properties = chrome::to_js(&json!({"url": url, "active": false}));
    let facts = match chrome::fetch::<TabFacts>(tabs::create(&properties)).await {
        Ok(facts) => facts,
        // A browser without a window, as there can be on macOS.
        Err(error) if error.0.contains("window") => told(open_window(url).await)?,
        Err(error) => return Err(failure::of_tab(&error)),
    };
    worker.guard.borrow_mut().opened(grant, facts.id);
    // A tab without its group is still the tab that was asked for.
    if let Err(error) = put_into_group(grant, &facts, group).await {
        worker.warn(&format!("grouping tab {}: {error}", facts.id));
    }
    let shown = worker.guard.borrow().list(grant, vec![facts], moment())?;
    shown.first().map_or_else(
        || Err(Failure::new(ErrorCode::UnknownTab, "the tab was closed at once")),
        |tab| Ok(json!(tab).to_string()),
    )
}

async fn open_window(url: &str) -> Result<TabFacts, ChromeError> {
    #[derive(Deserialize)]
    struct Window {
        tabs: Vec<TabFacts>,
    }
    let properties = chrome::to_js(&json!({"url": url, "focused": false}));
    let window: Window = chrome::fetch(tabs::create_window(&properties)).await?;
    window.tabs.into_iter().next().ok_or_else(|| ChromeError("the window has no tab".into()))
}

async fn put_into_group(grant: &GrantLabel, tab: &TabFacts, title: &str) -> Result<(), ChromeError> {
    #[derive(Deserialize)]
    struct Group {
        id: i32,
    }
    let title: String = title.chars().take(60).collect();
    let sum: usize = grant.as_str().bytes().map(usize::from).sum();
    let look = json!({"title": title, "color": COLOURS[sum % COLOURS.len()]});
    // The browser knows its groups better than a worker that may have been restarted.
    let same =
        chrome::to_js(&json!({"windowId": tab.window_id, "title": look["title"], "color": look["color"]}));
    let groups: Vec<Group> = chrome::fetch(tabs::query_groups(&same)).await?;
    if let Some(group) = groups.first() {
        chrome::settle(tabs::group(&chrome::to_js(&json!({"tabIds": [tab.id], "groupId": group.id}))))
            .await?;
        return Ok(());
    }
    let create = json!({"tabIds": [tab.id], "createProperties": {"windowId": tab.window_id}});
    let group: i32 = chrome::fetch(tabs::group(&chrome::to_js(&create))).await?;
    chrome::settle(tabs::update_group(group, &chrome::to_js(&look))).await?;
    Ok(())
}

async fn navigate(worker: &Worker, grant: &GrantLabel, tab: u32, to: NavigateTo) -> Answer {
    let touch = if to == NavigateTo::Reload { Touch::Use } else { Touch::Move };
    touchable(worker, grant, tab, touch).await?;
    let call = match to {
        NavigateTo::Url(url) => {
            worker.guard.borrow().may_open(grant, &url, moment())?;
            tabs::update(tab, &chrome::to_js(&json!({ "url": url })))
        }
        NavigateTo::Back => tabs::go_back(tab),
        NavigateTo::Forward => tabs::go_forward(tab),
        NavigateTo::Reload => tabs::reload(tab),
    };
    match chrome::settle(call).await {
        Ok(_) => Ok(NOTHING.to_owned()),
        Err(error) if error.0.contains("history") || error.0.contains("navigation entry") => {
            Err(Failure::new(ErrorCode::NavigationFailed, "the tab's history ends here")
                .next("navigate to an address"))
        }
        Err(error) => Err(failure::of_tab(&error)),
    }
}

async fn activate(worker: &Worker, grant: &GrantLabel, tab: u32) -> Answer {
    let facts = touchable(worker, grant, tab, Touch::Move).await?;
    told(chrome::settle(tabs::update(tab, &chrome::to_js(&json!({"active": true})))).await)?;
    let focus = chrome::to_js(&json!({"focused": true}));
    told(chrome::settle(tabs::update_window(facts.window_id, &focus)).await)?;
    Ok(NOTHING.to_owned())
}

async fn close(worker: &Worker, grant: &GrantLabel, tab: u32) -> Answer {
    let touch = worker.guard.borrow().closing(grant, tab);
    touchable(worker, grant, tab, touch).await?;
    told(chrome::settle(tabs::remove(tab)).await)?;
    Ok(NOTHING.to_owned())
}

/// The tab as it is now, if the grant may do that with it.
async fn touchable(worker: &Worker, grant: &GrantLabel, tab: u32, touch: Touch) -> Result<TabFacts, Failure> {
    let facts: TabFacts = told(chrome::fetch(tabs::get(tab)).await)?;
    worker.guard.borrow().may_touch(grant, &facts, touch, moment())?;
    Ok(facts)
}

fn told<T>(result: Result<T, ChromeError>) -> Result<T, Failure> {
    result.map_err(|error| failure::of_tab(&error))
}

/// What the popup shows of tabs; here because it asks the browser the same way.
pub(crate) async fn all_tabs() -> Vec<TabFacts> {
    chrome::fetch(tabs::query(&JsValue::from(js_sys::Object::new()))).await.unwrap_or_default()
}
