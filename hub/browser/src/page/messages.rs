//! Requests to the page script and its answers. Times are milliseconds; lengths and offsets are UTF-16 units;
//! coordinates are CSS pixels of the frame's own viewport.

use serde::{Deserialize, Serialize};

use super::{Call, Ref};

/// How a document is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One line a node, with refs.
    #[default]
    Outline,
    /// The visible text as a person reads it.
    Text,
}

/// Reads a document, or the part below `root`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Read {
    /// As an outline or as text.
    pub mode: Mode,
    /// Only what can be acted on, and the headings, containers and row texts that tell it apart.
    pub interactive_only: bool,
    /// With the address of each link.
    pub links: bool,
    /// A page of the answer holds at most so many characters.
    pub max_chars: u32,
    /// Where the page before this one ended.
    pub cursor: Option<String>,
    /// Reads only this node and what is in it; of a `select`, all its options.
    pub root: Option<Ref>,
}

impl Default for Read {
    fn default() -> Self {
        Self {
            mode: Mode::Outline,
            interactive_only: false,
            links: false,
            max_chars: 20_000,
            cursor: None,
            root: None,
        }
    }
}

impl Call for Read {
    const FUNCTION: &'static str = "read";
    type Answer = Checked<Page>;
}

/// One page of a reading; pages join to the whole text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Page {
    /// The lines.
    pub text: String,
    /// Asks for the next page; none at the end.
    pub cursor: Option<String>,
    /// The document changed since the page that `cursor` came from, so the pages may not fit together.
    pub changed: bool,
    /// Length of the whole reading.
    pub total_chars: u64,
    /// Subtrees left out because they were nested too deeply.
    pub omitted: u32,
    /// The document's address.
    pub url: String,
    /// Its title.
    pub title: String,
    /// The frames in this page, in order.
    pub frames: Vec<Frame>,
}

/// Where a frame's own reading belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Frame {
    /// The `iframe` element.
    #[serde(rename = "ref")]
    pub reference: Ref,
    /// After so many lines of the page's text.
    pub line: usize,
    /// Its lines are indented by so many spaces.
    pub indent: usize,
}

/// What an element looked like, or looks like.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Description {
    /// The tag's name.
    pub tag: String,
    /// The ARIA role, or the outline's word for it.
    pub role: String,
    /// The accessible name.
    pub name: String,
    /// The text of the row that it stands in, or the heading above it.
    pub context: String,
}

/// An element with its ref.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Element {
    /// Names the element from now on.
    #[serde(rename = "ref")]
    pub reference: Ref,
    /// What it is.
    #[serde(flatten)]
    pub description: Description,
}

/// Which part of a fingerprint changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Its role.
    Role,
    /// Its accessible name.
    Name,
    /// Its id, name or link target.
    Key,
    /// The row or heading that it belongs to.
    Context,
}

/// An answer about a ref: the node that the agent was shown, or why not. Nothing but `Ok` may be acted on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Checked<T> {
    /// Still the node that was shown, and it still says the same.
    Ok(T),
    /// The same node, but it is about something else now. Reading again renews the ref.
    Moved {
        /// As the agent was shown it.
        was: Description,
        /// As it is.
        now: Element,
        /// What changed.
        why: Vec<Change>,
    },
    /// The node is gone; exactly one other looks the same and got a ref of its own.
    Replaced {
        /// As the agent was shown it.
        was: Description,
        /// The other one.
        now: Element,
    },
    /// The node is gone, and none or several look the same.
    Gone {
        /// As the agent was shown it, if it was.
        was: Option<Description>,
    },
    /// No reading of this document has shown that ref.
    Unknown,
}

/// Asks what became of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Resolve {
    /// The ref.
    #[serde(rename = "ref")]
    pub reference: Ref,
    /// Takes what it is now as what the agent knows; only if the agent is shown the answer's `now`.
    pub refresh: bool,
}

impl Call for Resolve {
    const FUNCTION: &'static str = "resolve";
    type Answer = Resolved;
}

/// The answer to [`Resolve`].
pub type Resolved = Checked<Current>;

/// What a ref names now.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Current {
    /// The element.
    pub now: Element,
}

/// A point of the frame's viewport.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// From the left edge.
    pub x: f64,
    /// From the top edge.
    pub y: f64,
}

/// A rectangle of the frame's viewport.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Top edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// How an element is named by the caller.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetBy {
    /// A ref from a reading.
    Ref(Ref),
    /// A CSS selector; open shadow roots are looked into as well.
    Selector(String),
    /// Whatever takes a click at this point.
    Point(Point),
}

/// What a point is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A click: the element itself must take it.
    Click,
    /// Typing: as a click, and guarded fields are refused.
    Type,
    /// Hovering: disabled elements are allowed.
    Hover,
    /// A box to look at, whatever covers it.
    Read,
}

/// Finds a point of an element that a hit test says reaches it; scrolls if it has to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Locate {
    /// The element.
    #[serde(flatten)]
    pub target: TargetBy,
    /// What for.
    #[serde(rename = "for")]
    pub purpose: Purpose,
}

impl Call for Locate {
    const FUNCTION: &'static str = "locate";
    type Answer = Located;
}

/// Why a field is never typed into or read: `password`, `masked`, or its autocomplete token (`one-time-code`, `cc-number`, …).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Guard(pub String);

/// The answer to [`Locate`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Located {
    /// The element and a point on it.
    Ok(Target),
    /// See [`Checked::Moved`].
    Moved {
        /// As the agent was shown it.
        was: Description,
        /// As it is.
        now: Element,
        /// What changed.
        why: Vec<Change>,
    },
    /// See [`Checked::Replaced`].
    Replaced {
        /// As the agent was shown it.
        was: Description,
        /// The other one.
        now: Element,
    },
    /// The ref's node is gone, the selector matches nothing, or nothing is at the point.
    Gone {
        /// As the agent was shown it.
        was: Option<Description>,
    },
    /// See [`Checked::Unknown`].
    Unknown,
    /// The selector matches several visible elements.
    Ambiguous {
        /// How many.
        count: u32,
        /// The first five.
        candidates: Vec<Element>,
    },
    /// The selector is not CSS.
    BadSelector,
    /// It is disabled or inert.
    Disabled(Element),
    /// It has no box, no size, or cannot be scrolled into view.
    Invisible(Element),
    /// Something else takes the input at each point of it.
    Covered {
        /// The element that was meant.
        #[serde(flatten)]
        element: Element,
        /// What covers it.
        by: Element,
    },
    /// A password, one-time code or card field, and the purpose was typing.
    Guarded {
        /// The field.
        #[serde(flatten)]
        element: Element,
        /// Why.
        guard: Guard,
    },
}

/// A point on an element.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Target {
    /// The element.
    #[serde(flatten)]
    pub element: Element,
    /// Where to act.
    #[serde(flatten)]
    pub point: Point,
    /// The box that the point lies in: the element's own, or its label's.
    #[serde(rename = "box")]
    pub area: Area,
    /// It takes text.
    pub editable: bool,
    /// The page was scrolled.
    pub scrolled: bool,
}

/// Asks what has the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WhatHasFocus {
    /// Cuts values to so many characters.
    pub max_chars: u32,
}

impl Call for WhatHasFocus {
    const FUNCTION: &'static str = "focused";
    type Answer = FocusState;
}

/// What has the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// Nothing, or the whole document.
    None,
    /// An `input` of any type.
    Input,
    /// A `textarea`.
    Textarea,
    /// A `select`.
    Select,
    /// A `button`.
    Button,
    /// The outermost element of an editing host.
    Contenteditable,
    /// A frame: ask the script in it.
    Frame,
    /// Anything else that can be focused.
    Other,
}

/// The answer to [`WhatHasFocus`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FocusState {
    /// What sort of element.
    pub kind: FieldKind,
    /// The element, unless nothing has focus.
    #[serde(flatten)]
    pub element: Option<Element>,
    /// It takes text.
    pub editable: bool,
    /// Its content, unless nothing or a frame has focus.
    pub content: Option<Content>,
    /// What is selected in it.
    pub selection: Option<Selection>,
}

/// A selection inside a field.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Selection {
    /// Start, in fields that tell it.
    pub start: Option<u64>,
    /// End.
    pub end: Option<u64>,
    /// The selected text.
    pub text: String,
}

/// What an element holds. All texts are absent if it is guarded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Content {
    /// Why it is never read.
    pub guarded: Option<Guard>,
    /// A field's value, an editor's text, or an element's text, cut to the length asked for.
    pub value: Option<String>,
    /// The whole length of that.
    pub length: Option<u64>,
    /// Of checkboxes, radios and switches.
    pub checked: Option<bool>,
    /// Labels of the chosen options of a `select`.
    pub selected: Option<Vec<String>>,
    /// Names of the files of a file input.
    pub files: Option<Vec<String>>,
    /// Where a link leads.
    pub href: Option<String>,
}

/// Reads an element's content back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Value {
    /// The element.
    #[serde(rename = "ref")]
    pub reference: Ref,
    /// Cuts the value to so many characters.
    pub max_chars: u32,
}

impl Call for Value {
    const FUNCTION: &'static str = "value";
    type Answer = Checked<Content>;
}

/// Where the caret goes when an element is focused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Caret {
    /// Where the page puts it.
    #[default]
    None,
    /// Everything is selected, so that typing replaces it.
    All,
    /// After the last character.
    End,
}

/// Moves the keyboard to an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Focus {
    /// The element.
    #[serde(rename = "ref")]
    pub reference: Ref,
    /// The caret.
    pub select: Caret,
}

impl Call for Focus {
    const FUNCTION: &'static str = "focus";
    type Answer = Checked<FocusTaken>;
}

/// The answer to [`Focus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct FocusTaken {
    /// Whether the element, or something in it, has the keyboard now.
    pub focused: bool,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// Visible text that contains this; white space is collapsed in both.
    Text(String),
    /// A visible element.
    Selector(String),
    /// The node of a ref, visible, whatever it is about now.
    Ref(Ref),
    /// An address that contains this.
    Url(String),
}

/// Waits in the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// For what.
    #[serde(flatten)]
    pub what: WaitFor,
    /// For it to be gone instead.
    pub gone: bool,
    /// At most so long. A navigation ends the wait with the document, without an answer.
    pub timeout_ms: u32,
}

impl Call for Wait {
    const FUNCTION: &'static str = "wait";
    type Answer = Waited;
}

/// The answer to [`Wait`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Waited {
    /// Whether it came to pass in time.
    pub found: bool,
    /// The element that matched or holds the text, if there is one.
    #[serde(rename = "ref")]
    pub reference: Option<Ref>,
    /// How long it took.
    pub waited_ms: u64,
    /// What is wrong with the selector.
    pub error: Option<String>,
}

/// Starts to watch what an action does; a second one begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Observe {
    /// The element that is about to be acted on.
    #[serde(rename = "ref")]
    pub reference: Option<Ref>,
}

impl Call for Observe {
    const FUNCTION: &'static str = "observe";
    type Answer = Watching;
}

/// Whether a watch is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Watching {
    /// It is.
    pub watching: bool,
}

/// Ends the watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct EndObservation {}

impl Call for EndObservation {
    const FUNCTION: &'static str = "observed";
    type Answer = Option<Observation>;
}

/// What happened while it was watched; absent when nothing was, for instance because the document is a new one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Observation {
    /// Changes of the DOM anywhere. Busy pages always have some.
    pub mutations: u64,
    /// Those in the target, or in the row that it stands in.
    pub target_mutations: u64,
    /// The target's value, checked, expanded, … differ. Guarded values count here, but are never told.
    pub state_changed: bool,
    /// The target is still in the document.
    pub connected: bool,
    /// Something else has the keyboard.
    pub focus_changed: bool,
    /// Something scrolled.
    pub scroll_changed: bool,
    /// The address.
    pub url: String,
    /// It changed within the document.
    pub url_changed: bool,
    /// Dialogs and popovers shown now, less those before.
    pub dialogs_opened: i32,
    /// Where a navigation that started leads.
    pub navigating: Option<String>,
    /// Input that arrived, the first fifty. None is no proof that none did: a page's own listener can hide it.
    pub events: Vec<Event>,
    /// How many more.
    pub dropped_events: u32,
}

/// An event that reached the document.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Event {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it was on. Known to the script only: the agent has not been shown it.
    pub target_ref: Option<Ref>,
    /// That is the watched target, in it, or its label.
    pub on_target: bool,
    /// It came from the browser, not from a script.
    pub trusted: bool,
}

/// Looks for elements that may hide a closed shadow root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FindHosts {
    /// At most so many.
    pub max: u32,
}

impl Call for FindHosts {
    const FUNCTION: &'static str = "hosts";
    type Answer = Hosts;
}

/// The answer to [`FindHosts`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Hosts {
    /// Custom elements, and empty elements that take up space.
    pub refs: Vec<Ref>,
}
