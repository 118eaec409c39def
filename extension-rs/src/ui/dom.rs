//! The few things that a page does with its document. Text is always set as text.

use wasm_bindgen::prelude::*;
use web_sys::{Document, Element, Event, HtmlElement, HtmlInputElement};

use crate::chrome;

/// The page's document.
#[derive(Clone)]
pub(super) struct Page(Document);

impl Page {
    /// The document that this runs in; none in a worker.
    pub(super) fn here() -> Option<Self> {
        Some(Self(web_sys::window()?.document()?))
    }

    /// The body's id.
    pub(super) fn name(&self) -> String {
        self.0.body().map(|body| body.id()).unwrap_or_default()
    }

    /// An element that the page's own HTML holds.
    pub(super) fn find(&self, id: &str) -> Option<HtmlElement> {
        self.0.get_element_by_id(id)?.dyn_into().ok()
    }

    /// An input that the page's own HTML holds.
    pub(super) fn input(&self, id: &str) -> Option<HtmlInputElement> {
        self.0.get_element_by_id(id)?.dyn_into().ok()
    }

    /// The inputs of a group of radio buttons.
    pub(super) fn radios(&self, name: &str) -> Vec<HtmlInputElement> {
        let Ok(list) = self.0.query_selector_all(&format!("input[name=\"{name}\"]")) else {
            return Vec::new();
        };
        (0..list.length()).filter_map(|n| list.item(n)?.dyn_into().ok()).collect()
    }

    pub(super) fn set_text(&self, id: &str, text: &str) {
        if let Some(element) = self.find(id).filter(|element| element.text_content().as_deref() != Some(text))
        {
            element.set_text_content(Some(text));
        }
    }

    pub(super) fn show(&self, id: &str, shown: bool) {
        if let Some(element) = self.find(id) {
            element.set_hidden(!shown);
        }
    }

    /// Adds an element to another; gives the new one.
    pub(super) fn add(&self, to: &Element, tag: &str, class: &str, text: &str) -> Option<Element> {
        let element = self.0.create_element(tag).ok()?;
        element.set_class_name(class);
        if !text.is_empty() {
            element.set_text_content(Some(text));
        }
        to.append_child(&element).ok()?;
        Some(element)
    }

    pub(super) fn on_click(&self, id: &str, does: impl Fn() + 'static) {
        if let Some(element) = self.find(id) {
            on(&element, "click", move |_| does());
        }
    }
}

/// Listens to an element for as long as the page is open.
pub(super) fn on(element: &Element, event: &str, does: impl Fn(Event) + 'static) {
    let listener = chrome::forever::<dyn FnMut(Event)>(Closure::new(does));
    // Only an event target of another page could refuse.
    let _ = element.add_event_listener_with_callback(event, listener.unchecked_ref());
}
