//! Which documents a tab holds right now, kept from the DevTools events that both sides see.
//!
//! The extension checks against its own copy before it sends anything, the hub against its own before it asks.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cdp::WORLD;
use crate::site::Origin;

/// One document of one frame: what a call was checked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DocumentId {
    /// The frame's DevTools id.
    pub frame: String,
    /// The loader's DevTools id: another one for each document that the frame commits.
    pub loader: String,
}

/// A frame and the document that it last committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The frame that holds this one.
    pub parent: Option<String>,
    /// The DevTools session that reaches it; `None` for the tab's own.
    pub session: Option<String>,
    /// Its document.
    pub document: DocumentId,
    /// Its address, without a fragment.
    pub url: String,
    /// Where it comes from; `None` when that is no http or https origin.
    pub origin: Option<Origin>,
}

/// Which of a frame's script contexts is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum World {
    /// The page's own.
    Page,
    /// The one that the page script lives in, which the page cannot see.
    Isolated,
}

#[derive(Debug, Clone)]
struct Context {
    session: Option<String>,
    number: i64,
    unique: String,
    frame: String,
    world: World,
}

/// The frames and contexts of one tab.
#[derive(Debug, Clone, Default)]
pub struct Documents {
    frames: HashMap<String, Frame>,
    contexts: Vec<Context>,
    main: Option<String>,
    /// Sessions of child targets, with the frame each holds.
    sessions: HashMap<String, String>,
}

impl Documents {
    /// Takes the answer of `Page.getFrameTree` from a session.
    pub fn seed(&mut self, session: Option<&str>, answer: &Value) {
        self.seed_tree(session, &answer["frameTree"]);
    }

    /// Takes a tab's frame tree that may be older than what events have told since: what they told stays.
    pub fn complete(&mut self, session: Option<&str>, answer: &Value) {
        let tree = &answer["frameTree"];
        let overtaken = self
            .main()
            .is_some_and(|main| tree["frame"]["loaderId"].as_str() != Some(main.document.loader.as_str()));
        if !overtaken {
            self.complete_tree(session, tree);
        }
    }

    fn complete_tree(&mut self, session: Option<&str>, tree: &Value) {
        if tree["frame"]["id"].as_str().is_some_and(|id| !self.frames.contains_key(id)) {
            self.commit(session, &tree["frame"]);
        }
        for child in tree["childFrames"].as_array().into_iter().flatten() {
            self.complete_tree(session, child);
        }
    }

    fn seed_tree(&mut self, session: Option<&str>, tree: &Value) {
        self.commit(session, &tree["frame"]);
        for child in tree["childFrames"].as_array().into_iter().flatten() {
            self.seed_tree(session, child);
        }
    }

    /// Takes one event. Says whether a frame committed another document, with that frame's id.
    pub fn event(&mut self, session: Option<&str>, method: &str, params: &Value) -> Option<String> {
        let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
        match method {
            "Page.frameNavigated" => return self.commit(session, &params["frame"]),
            "Page.navigatedWithinDocument" => {
                if let Some(frame) = self.frames.get_mut(&text("frameId")) {
                    frame.url = text("url");
                }
            }
            // A swap moves the frame to another process: its own session tells the rest.
            "Page.frameDetached" if params["reason"].as_str() != Some("swap") => {
                self.remove(&text("frameId"))
            }
            "Runtime.executionContextCreated" => self.context_created(session, &params["context"]),
            "Runtime.executionContextDestroyed" => {
                let number = params["executionContextId"].as_i64();
                self.contexts.retain(|c| c.session.as_deref() != session || Some(c.number) != number);
            }
            "Runtime.executionContextsCleared" => self.contexts.retain(|c| c.session.as_deref() != session),
            "Target.attachedToTarget"
                // An iframe's target has its frame's id.
                if params["targetInfo"]["type"].as_str() == Some("iframe") => {
                    let frame = params["targetInfo"]["targetId"].as_str().unwrap_or_default().to_owned();
                    self.sessions.insert(text("sessionId"), frame);
                }
            "Target.detachedFromTarget" => self.session_ended(&text("sessionId")),
            _ => {}
        }
        None
    }

    fn commit(&mut self, session: Option<&str>, frame: &Value) -> Option<String> {
        let id = frame["id"].as_str()?.to_owned();
        let loader = frame["loaderId"].as_str()?.to_owned();
        let parent = frame["parentId"].as_str().map(str::to_owned);
        let url = frame["url"].as_str().unwrap_or_default().to_owned();
        let own = Origin::parse(&url);
        // about:blank and about:srcdoc belong to whoever made them, which their default context alone tells: see
        // `context_created`. What is known of the same document stays.
        let same = self.frames.get(&id).filter(|known| known.document.loader == loader);
        let origin =
            own.or_else(|| same.and_then(|known| known.origin.clone()).filter(|_| url.starts_with("about:")));
        if parent.is_none() && session.is_none() {
            self.main = Some(id.clone());
        }
        let document = DocumentId { frame: id.clone(), loader };
        let known = self.frames.get(&id);
        let changed = known.is_none_or(|known| known.document != document);
        // A frame of another process can be told before the one that holds it: only a document that ends takes its
        // frames with it. Contexts of the old one are destroyed by events of their own.
        if known.is_some_and(|known| known.document != document) {
            self.drop_children(&id);
        }
        self.frames
            .insert(id.clone(), Frame { parent, session: session.map(str::to_owned), document, url, origin });
        changed.then_some(id)
    }

    fn context_created(&mut self, session: Option<&str>, context: &Value) {
        let aux = &context["auxData"];
        let world = if aux["isDefault"].as_bool() == Some(true) {
            World::Page
        } else if context["name"].as_str() == Some(WORLD) {
            World::Isolated
        } else {
            return;
        };
        let (Some(number), Some(unique), Some(frame)) =
            (context["id"].as_i64(), context["uniqueId"].as_str(), aux["frameId"].as_str())
        else {
            return;
        };
        if world == World::Page
            && let Some(known) = self.frames.get_mut(frame)
            && known.url.starts_with("about:")
        {
            known.origin = context["origin"].as_str().and_then(Origin::parse);
        }
        self.contexts.retain(|known| known.frame != frame || known.world != world);
        self.contexts.push(Context {
            session: session.map(str::to_owned),
            number,
            unique: unique.to_owned(),
            frame: frame.to_owned(),
            world,
        });
    }

    fn drop_children(&mut self, id: &str) {
        let children: Vec<String> = self
            .frames
            .iter()
            .filter(|(_, f)| f.parent.as_deref() == Some(id))
            .map(|(id, _)| id.clone())
            .collect();
        for child in children {
            self.remove(&child);
        }
    }

    fn remove(&mut self, id: &str) {
        if self.frames.remove(id).is_none() {
            return;
        }
        self.contexts.retain(|context| context.frame != id);
        self.drop_children(id);
        if self.main.as_deref() == Some(id) {
            self.main = None;
        }
    }

    fn session_ended(&mut self, session: &str) {
        self.contexts.retain(|context| context.session.as_deref() != Some(session));
        if let Some(frame) = self.sessions.remove(session)
            && self.frames.get(&frame).is_some_and(|known| known.session.as_deref() == Some(session))
        {
            self.remove(&frame);
        }
    }

    /// The tab's own document.
    pub fn main(&self) -> Option<&Frame> {
        self.frames.get(self.main.as_deref()?)
    }

    /// A frame by its DevTools id.
    pub fn frame(&self, id: &str) -> Option<&Frame> {
        self.frames.get(id)
    }

    /// The frame that still holds this very document.
    pub fn holding(&self, document: &DocumentId) -> Option<&Frame> {
        self.frames.get(&document.frame).filter(|frame| frame.document == *document)
    }

    /// The frames right below a frame.
    pub fn children<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Frame> {
        self.frames.values().filter(move |frame| frame.parent.as_deref() == Some(id))
    }

    /// The unique id and the number of a frame's script context.
    pub fn context(&self, frame: &str, world: World) -> Option<(&str, i64)> {
        self.contexts
            .iter()
            .find(|context| context.frame == frame && context.world == world)
            .map(|context| (context.unique.as_str(), context.number))
    }

    /// The frame and world that a unique context id belongs to.
    pub fn context_frame(&self, unique: &str) -> Option<(&Frame, World)> {
        let context = self.contexts.iter().find(|context| context.unique == unique)?;
        Some((self.frames.get(&context.frame)?, context.world))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn frame(id: &str, loader: &str, url: &str, parent: Option<&str>) -> Value {
        json!({"id": id, "loaderId": loader, "url": url, "parentId": parent, "securityOrigin": "https://a.test"})
    }

    fn navigated(documents: &mut Documents, value: Value) -> Option<String> {
        documents.event(None, "Page.frameNavigated", &json!({ "frame": value }))
    }

    fn context(documents: &mut Documents, id: i64, frame: &str, isolated: bool) {
        let name = if isolated { WORLD } else { "" };
        let event = json!({"context": {"id": id, "uniqueId": format!("u{id}"), "name": name, "origin": "https://a.test",
            "auxData": {"isDefault": !isolated, "frameId": frame}}});
        documents.event(None, "Runtime.executionContextCreated", &event);
    }

    #[test]
    fn a_commit_replaces_the_document_and_drops_the_frames_below_it() {
        let mut documents = Documents::default();
        let tree = json!({"frameTree": {"frame": frame("M", "1", "https://a.test/", None),
            "childFrames": [{"frame": frame("C", "2", "about:srcdoc", Some("M"))}]}});
        documents.seed(None, &tree);
        assert_eq!(documents.frame("C").unwrap().origin, None);
        context(&mut documents, 9, "C", false);
        assert_eq!(documents.frame("C").unwrap().origin, Origin::parse("https://a.test"));
        let before = documents.main().unwrap().document.clone();
        assert_eq!(navigated(&mut documents, frame("M", "3", "https://b.test/", None)), Some("M".into()));
        assert!(documents.holding(&before).is_none() && documents.frame("C").is_none());
        assert_eq!(navigated(&mut documents, frame("M", "3", "https://b.test/", None)), None);
    }

    #[test]
    fn a_tree_that_a_commit_overtook_changes_nothing() {
        let mut documents = Documents::default();
        let tree = json!({"frameTree": {"frame": frame("M", "1", "", None)}});
        navigated(&mut documents, frame("M", "2", "https://a.test/", None));
        documents.complete(None, &tree);
        assert_eq!(documents.main().unwrap().url, "https://a.test/");
        let newer = json!({"frameTree": {"frame": frame("M", "2", "https://a.test/", None),
            "childFrames": [{"frame": frame("C", "3", "https://c.test/", Some("M"))}]}});
        documents.complete(None, &newer);
        assert_eq!(documents.frame("C").unwrap().url, "https://c.test/");
    }

    #[test]
    fn contexts_follow_their_events() {
        let mut documents = Documents::default();
        navigated(&mut documents, frame("M", "1", "https://a.test/", None));
        context(&mut documents, 1, "M", false);
        context(&mut documents, 2, "M", true);
        assert_eq!(documents.context("M", World::Isolated), Some(("u2", 2)));
        assert_eq!(documents.context_frame("u1").unwrap().1, World::Page);
        documents.event(None, "Runtime.executionContextDestroyed", &json!({"executionContextId": 2}));
        assert_eq!(documents.context("M", World::Isolated), None);
        documents.event(None, "Runtime.executionContextsCleared", &json!({}));
        assert!(documents.context_frame("u1").is_none());
    }

    #[test]
    fn a_frame_of_another_process_lives_with_its_session() {
        let mut documents = Documents::default();
        navigated(&mut documents, frame("M", "1", "https://a.test/", None));
        let attached = json!({"sessionId": "S", "targetInfo": {"type": "iframe", "targetId": "C"}});
        documents.event(None, "Target.attachedToTarget", &attached);
        documents
            .seed(Some("S"), &json!({"frameTree": {"frame": frame("C", "9", "https://c.test/", Some("M"))}}));
        documents.event(None, "Page.frameDetached", &json!({"frameId": "C", "reason": "swap"}));
        assert_eq!(documents.frame("C").unwrap().session.as_deref(), Some("S"));
        assert_eq!(documents.main().unwrap().url, "https://a.test/");
        documents.event(None, "Target.detachedFromTarget", &json!({"sessionId": "S"}));
        assert!(documents.frame("C").is_none());
    }
}
