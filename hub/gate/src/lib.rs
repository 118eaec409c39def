//! Who may do what, for how long: grants, questions, cooldowns and the kill switch as pure state machines.
//!
//! Invariants:
//! - No clock, file, socket or randomness: the time, fresh secrets and the owner's answers are passed in, so
//!   that every order of events can be tested.
//! - Unknown, unanswered, withdrawn and unshowable all mean denied. The one exception is the owner's own
//!   `on_timeout = "allow"`, which allows a request (never a question) that was shown and not answered.
//! - A grant is found by its secret in constant time, and only for the path and the key it was given for.
//! - [`Gate::admit`] is the only way to a live grant, and it refuses while everything is disabled.
//! - Whatever changes what is allowed raises the epoch.
//!
//! It must never perform an effect: it says what has to happen ([`Effect`]) and its owner does it.

mod gate;
mod grant;
mod moment;
mod purpose;
mod restraint;
mod rules;
mod screen;
mod sites;

pub use gate::{Effect, Gate, MAX_SITES, Polled, SiteVerdict, Snapshot, ToolVerdict, Which};
pub use grant::{Admitted, EndReason, Fresh, GrantId, GrantView};
pub use moment::{Moment, Now};
pub use purpose::{Caller, Purpose, PurposeError, clean};
pub use rules::{Hours, KeyName, OnTimeout, PathRules, Rules, SiteRule, Switch};
pub use screen::{
    Answer, Asked, Asker, ControlAsk, Decision, DialogId, Question, QuestionKind, RequestId, Shown,
};
pub use sites::{Remembered, SiteError, parse_site};
