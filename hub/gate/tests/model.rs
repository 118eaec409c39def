//! Random orders of everything that can happen, against a reference that is simple enough to be read at once:
//! nothing is admitted without a live grant, and everything that has one is.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use consentry_gate::{
    Answer, Asked, ControlAsk, Effect, EndReason, Fresh, Gate, GrantId, Hours, KeyName, Moment, Now,
    OnTimeout, PathRules, Polled, Purpose, RequestId, Rules, Which,
};
use consentry_wire::{Epoch, ErrorCode, GrantLabel, PathName};
use proptest::prelude::*;

const KEYS: [&str; 3] = ["anna", "bert", "cleo"];
const PATHS: [&str; 3] = ["browser", "shell", "computer"];
const MINUTE: u64 = 60_000;

#[derive(Debug, Clone)]
enum Op {
    Request { key: usize, path: usize, minutes: Option<u16> },
    Answer(Answer),
    Poll { request: usize, key: usize, path: usize },
    Use { secret: usize, key: usize, path: usize },
    Finish { secret: usize },
    Release { secret: usize, key: usize, path: usize },
    Kill { path: Option<usize> },
    Wait(u64),
    Disable,
    Enable,
    Away,
    Revoke(usize),
    Abandon(usize),
    TakePathAway(usize),
    Restart,
}

fn ops() -> impl Strategy<Value = Op> {
    let key = 0..KEYS.len();
    let path = 0..PATHS.len();
    let answer = prop_oneof![
        6 => Just(Answer::Allow),
        1 => Just(Answer::AllowForGrant),
        1 => Just(Answer::Reject),
        1 => Just(Answer::CoolDown),
        2 => Just(Answer::TimedOut),
        1 => Just(Answer::NoDisplay),
        1 => Just(Answer::ScreenLocked),
        1 => Just(Answer::Withdrawn),
    ];
    prop_oneof![
        8 => (key.clone(), path.clone(), proptest::option::of(0..130_u16)).prop_map(|(key, path, minutes)| Op::Request { key, path, minutes }),
        8 => answer.prop_map(Op::Answer),
        3 => (0..8_usize, key.clone(), path.clone()).prop_map(|(request, key, path)| Op::Poll { request, key, path }),
        12 => (0..8_usize, key.clone(), path.clone()).prop_map(|(secret, key, path)| Op::Use { secret, key, path }),
        4 => (0..8_usize).prop_map(|secret| Op::Finish { secret }),
        2 => (0..8_usize, key.clone(), path.clone()).prop_map(|(secret, key, path)| Op::Release { secret, key, path }),
        1 => proptest::option::of(path.clone()).prop_map(|path| Op::Kill { path }),
        6 => prop_oneof![Just(1_u64), 1..MINUTE, Just(10 * MINUTE), 1..40 * MINUTE].prop_map(Op::Wait),
        1 => Just(Op::Disable),
        2 => Just(Op::Enable),
        1 => Just(Op::Away),
        1 => key.prop_map(Op::Revoke),
        1 => (0..8_usize).prop_map(Op::Abandon),
        1 => path.prop_map(Op::TakePathAway),
        1 => Just(Op::Restart),
    ]
}

/// The reference: a list of what is allowed, and a dialog.
struct Model {
    now: u64,
    disabled: bool,
    paths: Vec<usize>,
    grants: Vec<ModelGrant>,
    dialog: Option<ModelDialog>,
}

struct ModelGrant {
    secret: [u8; 16],
    key: usize,
    path: usize,
    expires: u64,
    last_used: u64,
    running: u32,
}

#[derive(Clone)]
struct ModelDialog {
    secret: [u8; 16],
    key: usize,
    path: usize,
    minutes: u64,
    until: u64,
    silence_allows: bool,
}

impl Model {
    fn settle(&mut self) {
        let now = self.now;
        self.grants.retain(|g| now < g.expires && (g.running > 0 || now - g.last_used < 10 * MINUTE));
        if self.dialog.as_ref().is_some_and(|d| now >= d.until + 3000) {
            self.dialog = None;
        }
    }

    fn live(&mut self, secret: [u8; 16], key: usize, path: usize) -> Option<&mut ModelGrant> {
        self.settle();
        if self.disabled {
            return None;
        }
        self.grants.iter_mut().find(|g| g.secret == secret && g.key == key && g.path == path)
    }

    fn answer(&mut self, answer: Answer) {
        let Some(dialog) = self.dialog.take() else { return };
        let yes = answer == Answer::Allow || (answer == Answer::TimedOut && dialog.silence_allows);
        if yes && !self.disabled && self.paths.contains(&dialog.path) {
            let expires = self.now + dialog.minutes * MINUTE;
            let ModelDialog { secret, key, path, .. } = dialog;
            self.grants.push(ModelGrant { secret, key, path, expires, last_used: self.now, running: 0 });
        }
    }
}

fn rules(paths: &[usize]) -> Rules {
    let of = |&index: &usize| {
        let foreground = PATHS[index] == "computer";
        let on_timeout = if PATHS[index] == "shell" {
            OnTimeout::Allow { keys: Some(vec![name(0)]), hours: Some(Hours { from: 0, to: 600 }) }
        } else {
            OnTimeout::Deny
        };
        let cooldown = Duration::from_millis(MINUTE);
        (path(index), PathRules { foreground, on_timeout, cooldown, ..PathRules::default() })
    };
    Rules { paths: paths.iter().map(of).collect::<BTreeMap<_, _>>() }
}

fn name(index: usize) -> KeyName {
    KEYS[index].parse().unwrap()
}

fn path(index: usize) -> PathName {
    PATHS[index].parse().unwrap()
}

fn run(script: Vec<Op>) -> Result<(), TestCaseError> {
    let all: Vec<usize> = (0..PATHS.len()).collect();
    let mut gate = Gate::new(rules(&all), Vec::new());
    let mut model = Model { now: 0, disabled: false, paths: all.clone(), grants: Vec::new(), dialog: None };
    let mut secrets: Vec<[u8; 16]> = Vec::new();
    let mut requests: Vec<RequestId> = Vec::new();
    let mut labels: BTreeMap<[u8; 16], GrantLabel> = BTreeMap::new();
    let mut epoch = Epoch::default();
    let mut shown = None;
    let secret_at = |secrets: &[[u8; 16]], at: usize| {
        let recent = secrets.len().saturating_sub(8);
        secrets.get(recent + at).copied().unwrap_or([0xEE; 16])
    };

    for (step, op) in script.into_iter().enumerate() {
        let now = Now { moment: Moment(model.now), minute_of_day: ((model.now / MINUTE) % 1440) as u16 };
        match op {
            Op::Request { key, path: at, minutes } => {
                let mut secret = [0; 16];
                secret[..8].copy_from_slice(&(step as u64 + 1).to_le_bytes());
                let purpose = Purpose::parse("Test the order of things.").unwrap();
                let ask = ControlAsk { purpose, caller: None, minutes, sites: Vec::new() };
                let fresh = Fresh { id: GrantId::new(secret), label_seed: step as u32 };
                model.settle();
                let asked = gate.request(now, &name(key), &path(at), ask, fresh);
                if let Ok(request) = asked {
                    prop_assert!(!model.disabled && model.dialog.is_none() && model.paths.contains(&at));
                    prop_assert!(model.grants.iter().filter(|g| g.path == at).count() < 4);
                    prop_assert!(minutes.is_none_or(|m| (1..=120).contains(&m)));
                    let silence_allows = at == 1 && key == 0 && now.minute_of_day < 600;
                    let minutes = u64::from(minutes.unwrap_or(30));
                    let until = model.now + 10_000;
                    model.dialog =
                        Some(ModelDialog { secret, key, path: at, minutes, until, silence_allows });
                    secrets.push(secret);
                    requests.push(request);
                }
            }
            Op::Answer(answer) => {
                if let Some(dialog) = shown {
                    gate.answer(now, dialog, answer);
                    model.answer(answer);
                }
            }
            Op::Poll { request, key, path: at } => {
                let Some(request) = requests.get(request).copied() else { continue };
                model.settle();
                if let Ok(Polled::Allowed(id, view)) = gate.poll(now, &name(key), &path(at), request) {
                    let mut ours = model.grants.iter().filter(|g| g.key == key && g.path == at);
                    let revealed = id.reveal();
                    let owner = ours.find(|g| GrantId::new(g.secret).reveal() == revealed);
                    prop_assert!(owner.is_some(), "a secret was handed out that is not live");
                    labels.insert(owner.unwrap().secret, view.label);
                }
            }
            Op::Use { secret, key, path: at } => {
                let secret = secret_at(&secrets, secret);
                let admitted = gate.admit(now, &name(key), &path(at), Some(&GrantId::new(secret)), "tool");
                let now = model.now;
                let live = model.live(secret, key, at);
                prop_assert_eq!(admitted.is_ok(), live.is_some(), "step {}: {:?}", step, admitted);
                if let Some(grant) = live {
                    grant.running += 1;
                    grant.last_used = now;
                    let admitted = admitted.unwrap();
                    prop_assert_eq!(admitted.expires, Moment(grant.expires));
                    labels.insert(secret, admitted.label);
                }
            }
            Op::Finish { secret } => {
                let secret = secret_at(&secrets, secret);
                let now_ms = model.now;
                // Ends are noticed when something looks, so both sides look first.
                model.settle();
                gate.tick(now);
                if let (Some(grant), Some(label)) = (
                    model.grants.iter_mut().find(|g| g.secret == secret && g.running > 0),
                    labels.get(&secret),
                ) {
                    gate.finished(now, label);
                    grant.running -= 1;
                    grant.last_used = now_ms;
                }
            }
            Op::Release { secret, key, path: at } => {
                let secret = secret_at(&secrets, secret);
                model.settle();
                let released = gate.release(now, &name(key), &path(at), Some(&GrantId::new(secret)));
                let before = model.grants.len();
                model.grants.retain(|g| g.secret != secret || g.key != key || g.path != at);
                prop_assert_eq!(released.is_ok(), model.grants.len() < before);
            }
            Op::Kill { path: at } => {
                model.settle();
                gate.tick(now);
                let which = at.map_or(Which::All, |at| Which::Path(path(at)));
                let ended = gate.kill(now, EndReason::Killed, &which);
                let before = model.grants.len();
                model.grants.retain(|g| at.is_some_and(|at| g.path != at));
                model.dialog.take_if(|d| at.is_none_or(|at| d.path == at));
                prop_assert_eq!(ended, before - model.grants.len());
            }
            Op::Wait(ms) => model.now += ms,
            Op::Disable => {
                gate.disable(now);
                model.disabled = true;
                model.grants.clear();
                model.dialog = None;
            }
            Op::Enable => {
                gate.enable();
                model.disabled = false;
            }
            Op::Away => {
                gate.away(now);
                model.grants.retain(|g| PATHS[g.path] != "computer");
            }
            Op::Revoke(key) => {
                gate.revoke(now, &name(key));
                model.grants.retain(|g| g.key != key);
                model.dialog.take_if(|d| d.key == key);
            }
            Op::Abandon(request) => {
                let Some(request) = requests.get(request).copied() else { continue };
                let mine = gate
                    .snapshot()
                    .on_screen
                    .is_some_and(|s| matches!(s.asked, Asked::Control { request: r, .. } if r == request));
                gate.abandon(now, request);
                if mine {
                    model.dialog = None;
                }
            }
            Op::TakePathAway(at) => {
                model.paths = all.iter().copied().filter(|path| *path != at).collect();
                gate.set_rules(now, rules(&model.paths));
                model.settle();
                model.grants.retain(|g| g.path != at);
            }
            Op::Restart => {
                gate = Gate::new(rules(&all), Vec::new());
                model = Model {
                    now: model.now,
                    disabled: false,
                    paths: all.clone(),
                    grants: Vec::new(),
                    dialog: None,
                };
                requests.clear();
                shown = None;
                epoch = Epoch::default();
            }
        }

        // What has to be done is said once, in order, and the epoch only rises.
        for effect in gate.take_effects() {
            match effect {
                Effect::Show(next) => {
                    prop_assert!(shown.is_none(), "two dialogs at once");
                    shown = Some(next.dialog);
                }
                Effect::Withdraw(dialog) => prop_assert_eq!(Some(dialog), shown),
                Effect::Decided { .. } | Effect::Settled { .. } => shown = None,
                Effect::Push(next) => {
                    prop_assert!(next > epoch);
                    epoch = next;
                }
                _ => {}
            }
        }
        let snapshot = gate.snapshot();
        prop_assert_eq!(snapshot.epoch, epoch);
        prop_assert_eq!(snapshot.on_screen.map(|s| s.dialog), shown);
        prop_assert!(!snapshot.disabled || snapshot.grants.is_empty());
    }

    // Whatever the order was, what is live at the end is exactly what the reference says.
    let now = Now { moment: Moment(model.now), minute_of_day: 0 };
    gate.tick(now);
    model.settle();
    prop_assert_eq!(gate.snapshot().grants.len(), if model.disabled { 0 } else { model.grants.len() });
    if gate.snapshot().disabled {
        let refused = gate.admit(now, &name(0), &path(0), None, "tool").unwrap_err();
        prop_assert_eq!(refused.code, ErrorCode::Disabled);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn nothing_is_admitted_without_a_live_grant(script in proptest::collection::vec(ops(), 1..120)) {
        run(script)?;
    }
}
