//! The gate: all state that decides.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use consentry_wire::site::{Origin, Site, SiteScope};
use consentry_wire::{Epoch, ErrorCode, Failure, GrantLabel, PathName, ProfileId};

use crate::grant::{Admitted, EndReason, Fresh, Grant, GrantId, GrantView, label};
use crate::moment::{Moment, Now};
use crate::restraint::Restraint;
use crate::rules::{KeyName, PathRules, Rules, SiteRule, Switch};
use crate::screen::{
    Answer, Asked, Asker, ControlAsk, Decision, DialogId, Question, QuestionKind, RequestId, Shown,
};
use crate::sites::Remembered;

/// Questions that may wait for the screen.
const MAX_QUESTIONS: usize = 8;
/// Sites that one request may name.
pub const MAX_SITES: usize = 20;
/// A declined site is not asked about again for so long.
const SITE_DECLINED: Duration = Duration::from_secs(600);
/// The result of a request is kept so long for a caller to come back for it.
const RESULT_KEPT: Duration = Duration::from_secs(600);
/// A dialog that has not ended so long after its window is taken for dead, and denied.
const DIALOG_GRACE: Duration = Duration::from_secs(3);
/// How long a question on top of a grant stands at least.
const QUESTION_WINDOW: Duration = Duration::from_secs(30);
/// How long a question about the owner's own settings stands.
const WEAKEN_WINDOW: Duration = Duration::from_secs(60);

/// Something that the gate's owner has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Put this on the screen.
    Show(Shown),
    /// Take it from the screen.
    Withdraw(DialogId),
    /// A request for control was decided.
    Decided {
        /// The request.
        request: RequestId,
        /// Who asked.
        key: KeyName,
        /// For what.
        path: PathName,
        /// The grant's label, or why not.
        outcome: Result<GrantLabel, ErrorCode>,
    },
    /// A question was answered.
    Settled {
        /// The dialog.
        dialog: DialogId,
        /// What was asked.
        question: Question,
        /// Whether it is allowed.
        allowed: Result<(), ErrorCode>,
    },
    /// A site is to be remembered.
    Remember(Remembered),
    /// A grant began.
    Started(GrantView),
    /// A grant ended: its work has to end too.
    Ended(GrantView, EndReason),
    /// What is allowed changed: tell every helper and browser.
    Push(Epoch),
}

/// What has become of a request for control.
#[derive(Debug, Clone)]
pub enum Polled {
    /// The dialog is still on the screen.
    Waiting,
    /// Here is the grant.
    Allowed(GrantId, Box<GrantView>),
    /// No.
    Denied(Failure),
}

/// Which grants the owner ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Those of a path.
    Path(PathName),
    /// These.
    Labels(Vec<GrantLabel>),
}

impl Which {
    fn covers(&self, grant: &Grant) -> bool {
        match self {
            Self::All => true,
            Self::Path(path) => grant.path == *path,
            Self::Labels(labels) => labels.contains(&grant.label),
        }
    }
}

/// Whether a grant may touch a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteVerdict {
    /// Yes.
    Allowed,
    /// The owner has to be asked about this site.
    Ask(Site),
    /// The owner declined; not asked again yet.
    Declined {
        /// Milliseconds until it may be asked again.
        retry_after_ms: u64,
    },
}

/// Whether a grant may use a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolVerdict {
    /// Yes.
    Allowed,
    /// The owner has to be asked.
    Ask,
    /// The owner switched it off.
    Off,
}

/// What the status page and the browsers are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Counts the changes.
    pub epoch: Epoch,
    /// Everything is off.
    pub disabled: bool,
    /// The live grants, oldest first.
    pub grants: Vec<GrantView>,
    /// The dialog on the screen.
    pub on_screen: Option<Shown>,
    /// Questions that wait for the screen.
    pub waiting: usize,
}

struct Request {
    key: KeyName,
    path: PathName,
    fresh: Fresh,
    state: RequestState,
}

enum RequestState {
    Waiting,
    Allowed(GrantLabel),
    Denied(Failure, Moment),
}

/// All state that decides. See the crate's invariants.
pub struct Gate {
    rules: Rules,
    disabled: bool,
    epoch: Epoch,
    grants: Vec<Grant>,
    requests: HashMap<RequestId, Request>,
    on_screen: Option<Shown>,
    queue: VecDeque<(DialogId, Question)>,
    restraint: Restraint,
    remembered: Vec<Remembered>,
    next_id: u64,
    effects: Vec<Effect>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("epoch", &self.epoch)
            .field("grants", &self.grants.len())
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate without a single grant.
    pub fn new(rules: Rules, remembered: Vec<Remembered>) -> Self {
        Self {
            rules,
            disabled: false,
            epoch: Epoch::default(),
            grants: Vec::new(),
            requests: HashMap::new(),
            on_screen: None,
            queue: VecDeque::new(),
            restraint: Restraint::default(),
            remembered,
            next_id: 0,
            effects: Vec::new(),
        }
    }

    /// What has to be done since the last time.
    #[must_use]
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    // Asking for control.

    /// A caller asks for control of a path.
    ///
    /// # Errors
    /// When no dialog may be shown for it now.
    pub fn request(
        &mut self,
        now: Now,
        key: &KeyName,
        path: &PathName,
        ask: ControlAsk,
        fresh: Fresh,
    ) -> Result<RequestId, Failure> {
        self.tick(now);
        self.refuse_when_disabled()?;
        let rules = self.path_rules(path)?;
        let minutes = ask.minutes.unwrap_or(rules.minutes.min(rules.max_minutes));
        if !(1..=rules.max_minutes).contains(&minutes) {
            let allowed = format!("1 to {}", rules.max_minutes);
            return Err(Failure::argument("minutes", format!("minutes is {minutes}"), allowed));
        }
        if ask.sites.len() > MAX_SITES {
            let message = format!("{} sites are named", ask.sites.len());
            return Err(Failure::argument("sites", message, format!("at most {MAX_SITES}")));
        }
        let moment = now.moment;
        if let Some(ms) = self.restraint.cooling(path, moment) {
            let message = format!("the owner wants quiet on the {path} path");
            return Err(Failure::new(ErrorCode::Cooldown, message).retry_after(ms));
        }
        self.refuse_when_asked_too_often(key, moment)?;
        let live = self.grants.iter().filter(|grant| grant.path == *path).count();
        if live >= usize::from(rules.max_grants) {
            let message = format!("the {path} path has {live} live grants, as many as the owner allows");
            return Err(Failure::new(ErrorCode::TooManyGrants, message));
        }
        if let Some(shown) = &self.on_screen {
            let left = shown.until.since(moment);
            let message = "another dialog is on the owner's screen";
            return Err(Failure::new(ErrorCode::DialogBusy, message).retry_after(left));
        }
        let silence_allows = rules.on_timeout.allows(key, now.minute_of_day);
        let window = rules.window;
        let request = RequestId(self.fresh_number());
        let waiting = Request { key: key.clone(), path: path.clone(), fresh, state: RequestState::Waiting };
        self.requests.insert(request, waiting);
        let asked =
            Asked::Control { request, key: key.clone(), path: path.clone(), ask, minutes, silence_allows };
        self.show(moment, asked, window);
        Ok(request)
    }

    /// A caller comes back for what became of its request.
    ///
    /// # Errors
    /// When there is no such request of this key on this path.
    pub fn poll(
        &mut self,
        now: Now,
        key: &KeyName,
        path: &PathName,
        request: RequestId,
    ) -> Result<Polled, Failure> {
        self.tick(now);
        let unknown =
            || Failure::new(ErrorCode::UnknownRequest, "no such request of this key waits on this path");
        let known =
            self.requests.get(&request).filter(|r| r.key == *key && r.path == *path).ok_or_else(unknown)?;
        let polled = match &known.state {
            RequestState::Waiting => Polled::Waiting,
            RequestState::Denied(failure, _) => Polled::Denied(failure.clone()),
            RequestState::Allowed(label) => match self.grants.iter().find(|grant| grant.label == *label) {
                Some(grant) => Polled::Allowed(grant.id.clone(), Box::new(grant.view())),
                None => Polled::Denied(Failure::new(ErrorCode::GrantEnded, "the grant has ended already")),
            },
        };
        Ok(polled)
    }

    /// The caller went away before the answer: nobody should be asked on its behalf.
    pub fn abandon(&mut self, now: Now, request: RequestId) {
        let ours = |shown: &Shown| matches!(&shown.asked, Asked::Control { request: r, .. } if *r == request);
        if self.on_screen.as_ref().is_some_and(ours) {
            self.take_down(now, ours, Answer::Withdrawn);
            // Whoever asks and goes away has put a dialog before the owner all the same.
            if let Some(request) = self.requests.get(&request) {
                let key = request.key.clone();
                self.denied(&key, now.moment);
            }
        }
        self.requests.remove(&request);
    }

    // The owner's answers.

    /// A dialog ended. An answer to a dialog that is not on the screen is nothing.
    pub fn answer(&mut self, now: Now, dialog: DialogId, answer: Answer) {
        let Some(shown) = self.on_screen.take_if(|shown| shown.dialog == dialog) else { return };
        match shown.asked {
            Asked::Control { request, key, path, ask, minutes, silence_allows } => {
                let outcome =
                    self.control_answered(now, request, &key, &path, ask, minutes, silence_allows, answer);
                let outcome = outcome.map_err(|failure| {
                    let code = failure.code;
                    if let Some(known) = self.requests.get_mut(&request) {
                        known.state = RequestState::Denied(failure, now.moment);
                    }
                    code
                });
                self.effects.push(Effect::Decided { request, key, path, outcome });
            }
            Asked::Question(question) => self.question_answered(now, dialog, question, answer),
        }
        self.show_next(now.moment);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one dialog, taken apart")]
    fn control_answered(
        &mut self,
        now: Now,
        request: RequestId,
        key: &KeyName,
        path: &PathName,
        ask: ControlAsk,
        minutes: u16,
        silence_allows: bool,
        answer: Answer,
    ) -> Result<GrantLabel, Failure> {
        self.refuse_when_disabled()?;
        let rules = self.path_rules(path)?.clone();
        let decision = match answer {
            Answer::Allow => Decision::Allowed,
            Answer::TimedOut if silence_allows => Decision::TimeoutAllow,
            _ => {
                if declines(answer) {
                    self.denied(key, now.moment);
                }
                if answer == Answer::CoolDown {
                    self.restraint.cool(path, now.moment.after(rules.cooldown));
                }
                return Err(denial(answer));
            }
        };
        if decision == Decision::Allowed {
            self.restraint.allowed(key);
        }
        let gone = || Failure::new(ErrorCode::Cancelled, "the caller went away before the owner answered");
        let fresh = self.requests.get(&request).map(|r| r.fresh.clone()).ok_or_else(gone)?;
        let label = self.start(now.moment, fresh, key, path, ask, minutes, rules.idle, decision)?;
        if let Some(known) = self.requests.get_mut(&request) {
            known.state = RequestState::Allowed(label.clone());
        }
        Ok(label)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one grant")]
    fn start(
        &mut self,
        now: Moment,
        fresh: Fresh,
        key: &KeyName,
        path: &PathName,
        ask: ControlAsk,
        minutes: u16,
        idle: Duration,
        decision: Decision,
    ) -> Result<GrantLabel, Failure> {
        let free = (0..64)
            .filter_map(|step| label(fresh.label_seed.wrapping_add(step)))
            .find(|label| self.grants.iter().all(|grant| grant.label != *label));
        let label = free.ok_or_else(|| Failure::new(ErrorCode::Internal, "no label is free"))?;
        let grant = Grant {
            id: fresh.id,
            label: label.clone(),
            path: path.clone(),
            key: key.clone(),
            purpose: ask.purpose,
            caller: ask.caller,
            decision,
            started: now,
            expires: now.after(Duration::from_secs(u64::from(minutes) * 60)),
            idle,
            last_used: now,
            in_flight: 0,
            calls: 0,
            last_tool: None,
            sites: ask.sites,
            declined: Vec::new(),
            tools: Default::default(),
        };
        self.effects.push(Effect::Started(grant.view()));
        self.grants.push(grant);
        self.push();
        Ok(label)
    }

    /// Begins a grant that nobody was asked for. Only a standalone program does this, whose owner said so on its
    /// command line.
    ///
    /// # Errors
    /// When the path does not exist or everything is disabled.
    pub fn start_without_consent(
        &mut self,
        now: Now,
        key: &KeyName,
        path: &PathName,
        ask: ControlAsk,
        fresh: Fresh,
    ) -> Result<GrantLabel, Failure> {
        self.refuse_when_disabled()?;
        let rules = self.path_rules(path)?;
        let (minutes, idle) = (ask.minutes.unwrap_or(rules.minutes), rules.idle);
        self.start(now.moment, fresh, key, path, ask, minutes, idle, Decision::NoConsent)
    }

    // Using a grant.

    /// The one way to a live grant: finds it and counts the call. [`Gate::finished`] must follow.
    ///
    /// # Errors
    /// When there is no such live grant for this key and path, or everything is disabled.
    pub fn admit(
        &mut self,
        now: Now,
        key: &KeyName,
        path: &PathName,
        id: Option<&GrantId>,
        tool: &str,
    ) -> Result<Admitted, Failure> {
        self.tick(now);
        self.refuse_when_disabled()?;
        self.path_rules(path)?;
        let at = self.find(key, path, id)?;
        let epoch = self.epoch;
        let grant = &mut self.grants[at];
        grant.calls += 1;
        grant.in_flight += 1;
        grant.last_used = now.moment;
        grant.last_tool = Some(tool.to_owned());
        Ok(Admitted { label: grant.label.clone(), epoch, expires: grant.expires })
    }

    /// A call that was admitted is over.
    pub fn finished(&mut self, now: Now, label: &GrantLabel) {
        if let Some(grant) = self.grants.iter_mut().find(|grant| grant.label == *label) {
            grant.in_flight = grant.in_flight.saturating_sub(1);
            grant.last_used = now.moment;
        }
    }

    /// Looks at every grant, so that how long it takes says nothing about which came close.
    fn find(&self, key: &KeyName, path: &PathName, id: Option<&GrantId>) -> Result<usize, Failure> {
        let none =
            || Failure::new(ErrorCode::NoGrant, format!("no live grant for the {path} path was given"));
        let id = id.ok_or_else(none)?;
        let mut found = None;
        for (at, grant) in self.grants.iter().enumerate() {
            if grant.id.same(id) && grant.path == *path && grant.key == *key {
                found = Some(at);
            }
        }
        found.ok_or_else(none)
    }

    /// Whether a grant may use a tool, by its switch and by the path's rule about changes.
    pub fn tool(&self, label: &GrantLabel, tool: &str, changes: bool) -> ToolVerdict {
        let Some(grant) = self.grants.iter().find(|grant| grant.label == *label) else {
            return ToolVerdict::Off;
        };
        let Some(rules) = self.rules.paths.get(&grant.path) else { return ToolVerdict::Off };
        match rules.switches.get(tool) {
            Some(Switch::Off) => ToolVerdict::Off,
            _ if grant.tools.contains(tool) => ToolVerdict::Allowed,
            Some(Switch::Ask) => ToolVerdict::Ask,
            _ if changes && rules.ask_changes => ToolVerdict::Ask,
            _ => ToolVerdict::Allowed,
        }
    }

    /// Whether a grant may touch an origin in a browser profile.
    pub fn site(&self, now: Now, label: &GrantLabel, profile: &ProfileId, origin: &Origin) -> SiteVerdict {
        if self.scope(label, profile).covers(origin) {
            return SiteVerdict::Allowed;
        }
        let grant = self.grants.iter().find(|grant| grant.label == *label);
        let declined = grant.into_iter().flat_map(|grant| &grant.declined);
        let until = declined.filter(|(site, _)| site.covers(origin)).map(|(_, until)| *until).max();
        match until {
            Some(until) if until > now.moment => {
                SiteVerdict::Declined { retry_after_ms: until.since(now.moment) }
            }
            _ => SiteVerdict::Ask(origin.site()),
        }
    }

    /// Everything that a grant may touch in a browser profile.
    pub fn scope(&self, label: &GrantLabel, profile: &ProfileId) -> SiteScope {
        let Some(grant) = self.grants.iter().find(|grant| grant.label == *label) else {
            return SiteScope::Only(Vec::new());
        };
        if self.rules.paths.get(&grant.path).is_some_and(|rules| rules.sites == SiteRule::Any) {
            return SiteScope::Any;
        }
        let remembered = self
            .remembered
            .iter()
            .filter(|r| r.path == grant.path && r.key == grant.key && r.profile == *profile)
            .map(|r| r.site.clone());
        SiteScope::Only(grant.sites.iter().cloned().chain(remembered).collect())
    }

    /// Asks the owner something on top of a grant, or about a setting. The same question about a site joins the one
    /// that waits.
    ///
    /// # Errors
    /// When the grant is gone, its key was denied too often lately or too many questions wait.
    pub fn ask(
        &mut self,
        now: Now,
        grant: Option<&GrantLabel>,
        kind: QuestionKind,
    ) -> Result<DialogId, Failure> {
        self.tick(now);
        self.refuse_when_disabled()?;
        let ended = || Failure::new(ErrorCode::GrantEnded, "the grant has ended");
        let asker = match grant {
            None => None,
            Some(label) => {
                let grant = self.grants.iter().find(|grant| grant.label == *label).ok_or_else(ended)?;
                Some(Asker {
                    grant: grant.label.clone(),
                    path: grant.path.clone(),
                    key: grant.key.clone(),
                    purpose: grant.purpose.as_str().to_owned(),
                })
            }
        };
        let question = Question { asker, kind };
        // One click is one call: only what holds from then on is asked once for all who wait for it.
        let joins = matches!(question.kind, QuestionKind::Site { .. });
        if let Some(Shown { dialog, asked: Asked::Question(shown), .. }) = &self.on_screen
            && joins
            && *shown == question
        {
            return Ok(*dialog);
        }
        if let Some((dialog, _)) = self.queue.iter().find(|(_, waiting)| joins && *waiting == question) {
            return Ok(*dialog);
        }
        if let Some(asker) = &question.asker {
            self.refuse_when_asked_too_often(&asker.key, now.moment)?;
        }
        if self.queue.len() >= MAX_QUESTIONS {
            let message = format!("{MAX_QUESTIONS} questions wait for the owner already");
            return Err(Failure::new(ErrorCode::TooManyQuestions, message));
        }
        let dialog = DialogId(self.fresh_number());
        self.queue.push_back((dialog, question));
        self.show_next(now.moment);
        Ok(dialog)
    }

    /// Whoever asked a question no longer waits for the answer.
    pub fn withdraw(&mut self, now: Now, dialog: DialogId) {
        let theirs = |shown: &Shown| shown.dialog == dialog;
        if let Some(Shown { asked: Asked::Question(Question { asker: Some(asker), .. }), .. }) =
            self.on_screen.as_ref().filter(|shown| theirs(shown))
        {
            let key = asker.key.clone();
            self.denied(&key, now.moment);
        }
        self.take_down(now, theirs, Answer::Withdrawn);
        self.queue.retain(|(waiting, _)| *waiting != dialog);
    }

    /// One denial more for a key. When it has to wait, its questions that wait for the screen are not put either.
    fn denied(&mut self, key: &KeyName, now: Moment) {
        self.restraint.denied(key, now);
        if self.restraint.waiting(key, now).is_some() {
            let theirs = |question: &Question| question.asker.as_ref().is_some_and(|asker| asker.key == *key);
            self.drop_questions(ErrorCode::AskedTooOften, theirs);
        }
    }

    fn question_answered(&mut self, now: Now, dialog: DialogId, question: Question, answer: Answer) {
        let yes = matches!(answer, Answer::Allow | Answer::AllowForGrant) && !self.disabled;
        let at = question.grant().map(|label| self.grants.iter().position(|grant| grant.label == *label));
        let allowed = match at {
            _ if self.disabled => Err(ErrorCode::Disabled),
            Some(None) => Err(ErrorCode::GrantEnded),
            _ if !yes => Err(denial(answer).code),
            _ => Ok(()),
        };
        if let (Some(Some(at)), QuestionKind::Site { site, profile }) = (at, &question.kind) {
            let grant = &mut self.grants[at];
            if allowed.is_ok() {
                grant.sites.push(site.clone());
                if answer == Answer::Allow {
                    let (path, key) = (grant.path.clone(), grant.key.clone());
                    let new = Remembered { path, key, profile: profile.clone(), site: site.clone() };
                    if !self.remembered.contains(&new) {
                        self.remembered.push(new.clone());
                        self.effects.push(Effect::Remember(new));
                    }
                }
                self.push();
            } else if declines(answer) {
                grant.declined.push((site.clone(), now.moment.after(SITE_DECLINED)));
            }
        }
        if let (
            Some(Some(at)),
            QuestionKind::Tool { tool, for_grant: true, .. },
            Answer::AllowForGrant,
            Ok(()),
        ) = (at, &question.kind, answer, &allowed)
        {
            self.grants[at].tools.insert(tool.clone());
        }
        let key = question.asker.as_ref().map(|asker| asker.key.clone());
        let settled = allowed.is_ok();
        self.effects.push(Effect::Settled { dialog, question, allowed });
        if let Some(key) = key {
            if settled {
                self.restraint.allowed(&key);
            } else if declines(answer) {
                self.denied(&key, now.moment);
            }
        }
    }

    // Ending.

    /// The caller gives its grant back.
    ///
    /// # Errors
    /// When there is none of this key and path.
    pub fn release(
        &mut self,
        now: Now,
        key: &KeyName,
        path: &PathName,
        id: Option<&GrantId>,
    ) -> Result<GrantView, Failure> {
        self.tick(now);
        let at = self.find(key, path, id)?;
        let view = self.grants[at].view();
        self.end_where(now, EndReason::Released, |grant| grant.label == view.label);
        Ok(view)
    }

    /// The owner ends grants. Their paths get their cooldown, and what is asked for on them right now is denied: the
    /// owner who ends what runs does not want silence to begin the next.
    pub fn kill(&mut self, now: Now, reason: EndReason, which: &Which) -> usize {
        let killed = self.grants.iter().filter(|grant| which.covers(grant));
        let of_killed: Vec<PathName> = killed.map(|grant| grant.path.clone()).collect();
        let ended = of_killed.len();
        let paths = match which {
            Which::All => self.rules.paths.keys().cloned().collect(),
            Which::Path(path) => vec![path.clone()],
            Which::Labels(_) => of_killed,
        };
        for path in &paths {
            let cooldown = self.rules.paths.get(path).map(|rules| rules.cooldown).unwrap_or_default();
            self.restraint.cool(path, now.moment.after(cooldown));
        }
        self.end_where(now, reason, |grant| which.covers(grant));
        let asks =
            |shown: &Shown| matches!(&shown.asked, Asked::Control { path, .. } if paths.contains(path));
        self.take_down(now, asks, Answer::CoolDown);
        ended
    }

    /// Ends grants for any other reason than the owner's click.
    pub fn end(&mut self, now: Now, reason: EndReason, which: impl Fn(&GrantView) -> bool) {
        self.end_where(now, reason, |grant| which(&grant.view()));
    }

    /// The owner disabled everything. Works whatever else is broken.
    pub fn disable(&mut self, now: Now) {
        if std::mem::replace(&mut self.disabled, true) {
            return;
        }
        self.end_where(now, EndReason::Disabled, |_| true);
        self.push();
        self.take_down(now, |_| true, Answer::Withdrawn);
        self.drop_questions(ErrorCode::Disabled, |_| true);
    }

    /// The owner enabled control again. No grant comes back.
    pub fn enable(&mut self) {
        if std::mem::replace(&mut self.disabled, false) {
            self.push();
        }
    }

    /// A key was revoked, rotated or has expired: its grants, its dialog and its questions end.
    pub fn revoke(&mut self, now: Now, key: &KeyName) {
        self.end_where(now, EndReason::KeyRevoked, |grant| grant.key == *key);
        let theirs = |shown: &Shown| matches!(&shown.asked, Asked::Control { key: k, .. } if k == key);
        self.take_down(now, theirs, Answer::Withdrawn);
        self.requests.retain(|_, request| request.key != *key);
    }

    /// The screen was locked or the machine slept: nobody sees what happens on the screen.
    pub fn away(&mut self, now: Now) {
        let foreground: Vec<PathName> = self
            .rules
            .paths
            .iter()
            .filter(|(_, rules)| rules.foreground)
            .map(|(path, _)| path.clone())
            .collect();
        self.end_where(now, EndReason::Away, |grant| foreground.contains(&grant.path));
    }

    /// Other rules hold from now on. Grants of a path that is gone end, and the others live and idle no longer
    /// than the new rules allow.
    pub fn set_rules(&mut self, now: Now, rules: Rules) {
        if rules == self.rules {
            return;
        }
        self.rules = rules;
        let rules = self.rules.clone();
        self.end_where(now, EndReason::RulesChanged, |grant| !rules.paths.contains_key(&grant.path));
        for grant in &mut self.grants {
            if let Some(rules) = rules.paths.get(&grant.path) {
                grant.idle = rules.idle;
                let limit = grant.started.after(Duration::from_secs(u64::from(rules.max_minutes) * 60));
                grant.expires = grant.expires.min(limit);
            }
        }
        self.push();
        self.tick(now);
    }

    /// Forgets remembered sites, and ends their use.
    pub fn forget(&mut self, which: impl Fn(&Remembered) -> bool) -> usize {
        let before = self.remembered.len();
        let gone: Vec<Remembered> = self.remembered.iter().filter(|r| which(r)).cloned().collect();
        self.remembered.retain(|r| !gone.contains(r));
        for grant in &mut self.grants {
            grant.sites.retain(|site| {
                !gone.iter().any(|r| r.path == grant.path && r.key == grant.key && r.site == *site)
            });
        }
        if !gone.is_empty() {
            self.push();
        }
        before - self.remembered.len()
    }

    /// Ends what is over: grants, dialogs that hang, results that nobody came for.
    pub fn tick(&mut self, now: Now) {
        let moment = now.moment;
        for reason in [EndReason::Expired, EndReason::Idle] {
            self.end_where(now, reason, |grant| grant.over(moment) == Some(reason));
        }
        self.take_down(now, |shown| moment >= shown.until.after(DIALOG_GRACE), Answer::NoDisplay);
        let live: Vec<&GrantLabel> = self.grants.iter().map(|grant| &grant.label).collect();
        self.requests.retain(|_, request| match &request.state {
            RequestState::Waiting => true,
            RequestState::Allowed(label) => live.contains(&label),
            RequestState::Denied(_, at) => moment.since(*at) < RESULT_KEPT.as_millis() as u64,
        });
    }

    /// When [`Gate::tick`] has something to do at the latest.
    pub fn next_tick(&self) -> Option<Moment> {
        let grants = self.grants.iter().map(Grant::ends);
        let dialog = self.on_screen.iter().map(|shown| shown.until.after(DIALOG_GRACE));
        grants.chain(dialog).min()
    }

    // Looking.

    /// The whole, for the status page.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            epoch: self.epoch,
            disabled: self.disabled,
            grants: self.grants.iter().map(Grant::view).collect(),
            on_screen: self.on_screen.clone(),
            waiting: self.queue.len(),
        }
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The remembered sites.
    pub fn remembered(&self) -> &[Remembered] {
        &self.remembered
    }

    // Inside.

    fn refuse_when_disabled(&self) -> Result<(), Failure> {
        if self.disabled {
            Err(Failure::new(ErrorCode::Disabled, "the owner disabled control"))
        } else {
            Ok(())
        }
    }

    fn refuse_when_asked_too_often(&self, key: &KeyName, now: Moment) -> Result<(), Failure> {
        let Some(ms) = self.restraint.waiting(key, now) else { return Ok(()) };
        let message = format!("key {key} was denied too often lately");
        Err(Failure::new(ErrorCode::AskedTooOften, message).retry_after(ms))
    }

    fn path_rules(&self, path: &PathName) -> Result<&PathRules, Failure> {
        let unknown =
            || Failure::new(ErrorCode::UnknownPath, format!("there is no {path} path, or it is not enabled"));
        self.rules.paths.get(path).ok_or_else(unknown)
    }

    fn fresh_number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn push(&mut self) {
        self.epoch = self.epoch.next();
        self.effects.push(Effect::Push(self.epoch));
    }

    fn show(&mut self, now: Moment, asked: Asked, window: Duration) -> DialogId {
        let dialog = DialogId(self.fresh_number());
        self.show_as(dialog, now, asked, window);
        dialog
    }

    fn show_as(&mut self, dialog: DialogId, now: Moment, asked: Asked, window: Duration) {
        let shown = Shown { dialog, asked, since: now, until: now.after(window) };
        self.effects.push(Effect::Show(shown.clone()));
        self.on_screen = Some(shown);
    }

    /// Takes a dialog from the screen, with this for its answer.
    fn take_down(&mut self, now: Now, which: impl Fn(&Shown) -> bool, answer: Answer) {
        if let Some(dialog) = self.on_screen.as_ref().filter(|shown| which(shown)).map(|shown| shown.dialog) {
            self.effects.push(Effect::Withdraw(dialog));
            self.answer(now, dialog, answer);
        }
    }

    fn show_next(&mut self, now: Moment) {
        if self.on_screen.is_some() || self.disabled {
            return;
        }
        let Some((dialog, question)) = self.queue.pop_front() else { return };
        let rules = question.asker.as_ref().and_then(|asker| self.rules.paths.get(&asker.path));
        // A question has a text that has to be read: it never stands shorter than that takes.
        let window = rules.map_or(WEAKEN_WINDOW, |rules| rules.window.max(QUESTION_WINDOW));
        self.show_as(dialog, now, Asked::Question(question), window);
    }

    /// Ends grants with everything that hangs on them.
    fn end_where(&mut self, now: Now, reason: EndReason, which: impl Fn(&Grant) -> bool) {
        let (gone, kept): (Vec<Grant>, Vec<Grant>) =
            std::mem::take(&mut self.grants).into_iter().partition(which);
        self.grants = kept;
        if gone.is_empty() {
            return;
        }
        self.push();
        for grant in &gone {
            self.effects.push(Effect::Ended(grant.view(), reason));
        }
        let orphan = |question: &Question| {
            question.grant().is_some_and(|label| gone.iter().any(|grant| grant.label == *label))
        };
        self.drop_questions(ErrorCode::GrantEnded, orphan);
        let orphaned = |shown: &Shown| matches!(&shown.asked, Asked::Question(question) if orphan(question));
        self.take_down(now, orphaned, Answer::Withdrawn);
    }

    fn drop_questions(&mut self, code: ErrorCode, which: impl Fn(&Question) -> bool) {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.queue).into_iter().partition(|(_, question)| which(question));
        self.queue = kept.into();
        for (dialog, question) in gone {
            self.effects.push(Effect::Settled { dialog, question, allowed: Err(code) });
        }
    }
}

/// Whether the owner saw the dialog and did not agree.
fn declines(answer: Answer) -> bool {
    matches!(answer, Answer::Reject | Answer::CoolDown | Answer::TimedOut)
}

fn denial(answer: Answer) -> Failure {
    let (code, message) = match answer {
        Answer::TimedOut => (ErrorCode::TimedOut, "nobody answered the dialog"),
        Answer::NoDisplay => (ErrorCode::NoDisplay, "the dialog could not be shown"),
        Answer::ScreenLocked => (ErrorCode::ScreenLocked, "the owner's screen is locked"),
        Answer::Withdrawn => (ErrorCode::Cancelled, "the dialog was withdrawn before the owner answered"),
        _ => (ErrorCode::Rejected, "the owner declined"),
    };
    Failure::new(code, message)
}
