//! What clients are told about the tools and what the tools answer with: contracts, kept as golden files.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consentry_browser::{Browser, BrowserCapability, BrowserInfo, Tabs};
use consentry_core::{Capability as _, Permit, ToolSpec};
use consentry_wire::forbidden::HubPorts;
use consentry_wire::frame::Op;
use consentry_wire::{Epoch, ErrorCode, Failure, ProfileId};
use serde_json::{Map, Value, json};

/// `tools/list` of the browser path, the two tools of every path (at most 2 KiB) left out.
const MOST_BYTES: usize = 10 * 1024;

/// Every tool that the path may have: gateways and prompts already use these names.
const CONTRACT: &str = "list_tabs open_tab navigate_tab activate_tab close_tab read_page find_in_page click_element \
    hover_element drag_element scroll_page type_text fill_form select_option press_key paste upload_file wait_for \
    handle_dialog take_screenshot save_pdf evaluate_script list_console_messages list_network_requests \
    get_network_request wait_for_download emulate record_trace";

struct NoBrowser;

#[async_trait]
impl Browser for NoBrowser {
    fn browsers(&self) -> Vec<BrowserInfo> {
        Vec::new()
    }
    async fn op(&self, _: &Permit, _: &ProfileId, _: Op, _: Duration) -> Result<Value, Failure> {
        Err(Failure::new(ErrorCode::ExtensionNotConnected, "there is no browser"))
    }
    async fn settled(&self, _: Epoch) {}
}

fn specs() -> Vec<ToolSpec> {
    let ports = HubPorts { mcp: 7311, control: 7312 };
    let capability = BrowserCapability::new(Arc::new(NoBrowser), Tabs::default(), ports);
    capability.tools().iter().map(|tool| tool.spec().clone()).collect()
}

/// As in `tools/list`.
fn listed(spec: &ToolSpec) -> Value {
    let mut input = spec.input.clone();
    let properties = input.entry("properties").or_insert_with(|| json!({}));
    properties["grant_id"] = json!({ "type": "string" });
    let required = input.entry("required").or_insert_with(|| json!([]));
    required.as_array_mut().unwrap().insert(0, json!("grant_id"));
    json!({
        "name": spec.name,
        "description": spec.description,
        "inputSchema": input,
        "annotations": {
            "title": spec.title,
            "readOnlyHint": spec.annotations.read_only,
            "destructiveHint": spec.annotations.destructive,
            "idempotentHint": spec.annotations.idempotent,
            "openWorldHint": spec.annotations.open_world,
        },
    })
}

/// The same in whatever order the fields were written.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            let field = |name: &String| (name.clone(), sorted(&fields[name]));
            Value::Object(names.into_iter().map(field).collect::<Map<_, _>>())
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(&sorted(value)).unwrap()
}

#[test]
fn each_tool_is_told_as_in_its_golden_file() {
    for spec in specs() {
        insta::assert_snapshot!(format!("tool_{}", spec.name), pretty(&listed(&spec)));
    }
}

#[test]
fn each_result_is_as_in_its_golden_file() {
    for spec in specs() {
        insta::assert_snapshot!(format!("result_{}", spec.name), pretty(&Value::Object(spec.output)));
    }
}

#[test]
fn the_tools_have_the_names_that_were_promised() {
    let names: Vec<&str> = specs().iter().map(|spec| spec.name).collect();
    let promised: Vec<&str> = CONTRACT.split_whitespace().collect();
    assert!(names.iter().all(|name| promised.contains(name)), "{names:?}");
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len());
    for first in [
        "list_tabs",
        "open_tab",
        "navigate_tab",
        "activate_tab",
        "close_tab",
        "read_page",
        "click_element",
        "type_text",
        "press_key",
        "evaluate_script",
        "take_screenshot",
        "wait_for",
    ] {
        assert!(names.contains(&first), "{first}");
    }
}

#[test]
fn the_list_of_tools_stays_small() {
    let all = Value::Array(specs().iter().map(listed).collect()).to_string();
    assert!(all.len() <= MOST_BYTES, "{} bytes", all.len());
}

#[test]
fn every_schema_refuses_what_it_does_not_know_and_leaves_the_grant_to_the_wrapper() {
    for spec in specs() {
        assert_eq!(spec.input["type"], json!("object"), "{}", spec.name);
        assert_eq!(spec.input["additionalProperties"], json!(false), "{}", spec.name);
        let properties = spec.input.get("properties").and_then(Value::as_object);
        assert!(properties.is_none_or(|fields| !fields.contains_key("grant_id")), "{}", spec.name);
        assert_eq!(spec.output["type"], json!("object"), "{}", spec.name);
        assert!(!Value::Object(spec.input.clone()).to_string().contains("$ref"), "{}", spec.name);
        assert!(spec.description.ends_with('.') && !spec.title.is_empty(), "{}", spec.name);
    }
}

#[test]
fn a_tool_that_only_reads_is_marked_so_and_none_that_acts_is() {
    let reads = ["list_tabs", "read_page", "take_screenshot", "wait_for"];
    for spec in specs() {
        let marks = spec.annotations;
        assert!(!(marks.read_only && marks.destructive), "{}", spec.name);
        if reads.contains(&spec.name) {
            assert!(marks.read_only, "{}", spec.name);
        }
        if ["click_element", "type_text", "press_key", "evaluate_script", "navigate_tab"].contains(&spec.name)
        {
            assert!(!marks.read_only, "{}", spec.name);
        }
    }
}
