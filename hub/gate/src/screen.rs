//! What is on the owner's screen, and what waits to be.

use consentry_wire::site::Site;
use consentry_wire::{GrantLabel, PathName, ProfileId};
use serde::{Deserialize, Serialize};

use crate::moment::Moment;
use crate::purpose::{Caller, Purpose};
use crate::rules::KeyName;

/// One dialog, from the moment it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DialogId(pub u64);

/// One request for control, by which a caller comes back for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A request for control as the caller made it, already validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlAsk {
    /// Why.
    pub purpose: Purpose,
    /// What the caller calls itself.
    pub caller: Option<Caller>,
    /// For how long; the path's default if absent.
    pub minutes: Option<u16>,
    /// Sites named beforehand.
    pub sites: Vec<Site>,
}

/// What a dialog asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Control of a path.
    Control {
        /// The request.
        request: RequestId,
        /// Who asks.
        key: KeyName,
        /// Of what.
        path: PathName,
        /// With which words.
        ask: ControlAsk,
        /// For how many minutes.
        minutes: u16,
        /// Whether silence means yes.
        silence_allows: bool,
    },
    /// Something finer.
    Question(Question),
}

/// A question on top of a grant, or one about the owner's own settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Who asks; nobody when a setting became weaker.
    pub asker: Option<Asker>,
    /// What.
    pub kind: QuestionKind,
}

/// The grant that asks a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// Its label.
    pub grant: GrantLabel,
    /// Its path.
    pub path: PathName,
    /// The key that holds it.
    pub key: KeyName,
    /// What it was asked for; untrusted text.
    pub purpose: String,
}

impl Question {
    /// The grant that asks.
    pub fn grant(&self) -> Option<&GrantLabel> {
        self.asker.as_ref().map(|asker| &asker.grant)
    }
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionKind {
    /// A site that the grant touches for the first time.
    Site {
        /// The site.
        site: Site,
        /// In which browser profile.
        profile: ProfileId,
    },
    /// A tool that the owner wants to be asked about.
    Tool {
        /// Its name.
        tool: String,
        /// What it would act upon.
        target: String,
        /// The full text: a script, a command.
        text: String,
        /// Whether it may be allowed for the rest of the grant.
        for_grant: bool,
    },
    /// Settings that became weaker than the approved ones, one a line.
    Weaken {
        /// In words.
        changes: Vec<String>,
    },
}

/// How a dialog ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Allow, or Allow and remember, or Allow once.
    Allow,
    /// For this grant only, or for the rest of this grant.
    AllowForGrant,
    /// No.
    Reject,
    /// No, and quiet for a while.
    CoolDown,
    /// It was shown, and nobody answered.
    TimedOut,
    /// It could not be shown, or no longer.
    NoDisplay,
    /// The screen is locked.
    ScreenLocked,
    /// It was taken from the screen without an answer.
    Withdrawn,
}

/// How a grant came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The owner clicked Allow.
    Allowed,
    /// Nobody answered, and the owner's rule says that this means yes.
    TimeoutAllow,
    /// No consent was asked for: a standalone program whose owner said so on its command line.
    NoConsent,
}

/// The dialog that is on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its id.
    pub dialog: DialogId,
    /// What it asks.
    pub asked: Asked,
    /// Since when.
    pub since: Moment,
    /// Until when at the latest.
    pub until: Moment,
}
