//! The rules of the gate, one test a rule.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use consentry_gate::{
    Answer, ControlAsk, DialogId, Effect, EndReason, Fresh, Gate, GrantId, KeyName, Moment, Now, OnTimeout,
    PathRules, Polled, Purpose, QuestionKind, Remembered, RequestId, Rules, SiteRule, SiteVerdict, Switch,
    ToolVerdict, Which, parse_site,
};
use consentry_wire::site::Origin;
use consentry_wire::{ErrorCode, Failure, GrantLabel, PathName, ProfileId};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;

struct Scene {
    gate: Gate,
    now: u64,
    seed: u8,
}

impl Scene {
    fn new(change: impl Fn(&mut PathRules)) -> Self {
        let mut paths = BTreeMap::new();
        for name in ["browser", "shell"] {
            let mut rules = PathRules::default();
            change(&mut rules);
            paths.insert(name.parse().unwrap(), rules);
        }
        Self { gate: Gate::new(Rules { paths }, Vec::new()), now: 0, seed: 0 }
    }

    fn at(&self) -> Now {
        Now { moment: Moment(self.now), minute_of_day: 0 }
    }

    fn ask(&mut self, key: &str, minutes: Option<u16>, sites: &[&str]) -> Result<RequestId, Failure> {
        self.seed += 1;
        let ask = ControlAsk {
            purpose: Purpose::parse("Read the invoices.").unwrap(),
            caller: None,
            minutes,
            sites: sites.iter().map(|site| parse_site(site).unwrap()).collect(),
        };
        let fresh = Fresh { id: GrantId::new([self.seed; 16]), label_seed: 7 };
        self.gate.request(self.at(), &key_name(key), &PathName::browser(), ask, fresh)
    }

    fn on_screen(&self) -> DialogId {
        self.gate.snapshot().on_screen.expect("a dialog is on the screen").dialog
    }

    fn answer(&mut self, answer: Answer) {
        let dialog = self.on_screen();
        self.gate.answer(self.at(), dialog, answer);
    }

    fn grant(&mut self, key: &str) -> (GrantId, GrantLabel) {
        let request = self.ask(key, None, &[]).unwrap();
        self.answer(Answer::Allow);
        match self.gate.poll(self.at(), &key_name(key), &PathName::browser(), request).unwrap() {
            Polled::Allowed(id, view) => (id, view.label),
            other => panic!("{other:?}"),
        }
    }

    fn admit(&mut self, key: &str, id: &GrantId) -> Result<GrantLabel, ErrorCode> {
        let admitted =
            self.gate.admit(self.at(), &key_name(key), &PathName::browser(), Some(id), "read_page");
        admitted.map(|a| a.label).map_err(|failure| failure.code)
    }

    fn ended(&mut self) -> Vec<EndReason> {
        let ended = |effect| if let Effect::Ended(_, reason) = effect { Some(reason) } else { None };
        self.gate.take_effects().into_iter().filter_map(ended).collect()
    }
}

fn key_name(text: &str) -> KeyName {
    text.parse().unwrap()
}

fn profile() -> ProfileId {
    "k3x9".parse().unwrap()
}

fn code<T>(result: Result<T, Failure>) -> Option<ErrorCode> {
    result.err().map(|failure| failure.code)
}

#[test]
fn a_grant_ends_at_its_lifetime_even_when_it_is_busy_and_at_its_idle_time_only_when_it_is_not() {
    let mut scene = Scene::new(|_| {});
    let (id, label) = scene.grant("agent");
    scene.admit("agent", &id).unwrap();
    scene.now = 15 * MINUTE;
    assert!(scene.admit("agent", &id).is_ok(), "a running call keeps it from idling");
    scene.gate.finished(scene.at(), &label);
    scene.now = 30 * MINUTE;
    assert_eq!(scene.admit("agent", &id), Err(ErrorCode::NoGrant));
    assert_eq!(scene.ended(), [EndReason::Expired]);

    let (id, label) = scene.grant("agent");
    scene.admit("agent", &id).unwrap();
    scene.gate.finished(scene.at(), &label);
    scene.now += 10 * MINUTE;
    assert_eq!(scene.admit("agent", &id), Err(ErrorCode::NoGrant));
    assert_eq!(scene.ended(), [EndReason::Idle]);
}

#[test]
fn a_grant_is_bound_to_its_path_and_key() {
    let mut scene = Scene::new(|_| {});
    let (id, _) = scene.grant("agent");
    assert_eq!(scene.admit("other", &id), Err(ErrorCode::NoGrant));
    let shell = "shell".parse().unwrap();
    let elsewhere = scene.gate.admit(scene.at(), &key_name("agent"), &shell, Some(&id), "run_command");
    assert_eq!(code(elsewhere), Some(ErrorCode::NoGrant));
    assert!(scene.admit("agent", &id).is_ok());
}

#[test]
fn minutes_and_sites_are_bounded_and_refused_with_what_is_allowed() {
    let mut scene = Scene::new(|_| {});
    for bad in [0, 121, u16::MAX] {
        let failure = scene.ask("agent", Some(bad), &[]).unwrap_err();
        assert_eq!(
            (failure.field.as_deref(), failure.allowed.as_deref()),
            (Some("minutes"), Some("1 to 120"))
        );
    }
    let many: Vec<String> = (0..21).map(|n| format!("site{n}.example.com")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(scene.ask("agent", None, &many).unwrap_err().field.as_deref(), Some("sites"));
    assert!(scene.ask("agent", Some(120), &many[..20]).is_ok());
}

#[test]
fn one_dialog_for_the_whole_machine_and_four_grants_a_path() {
    let mut scene = Scene::new(|_| {});
    scene.ask("agent", None, &[]).unwrap();
    for _ in 0..19 {
        assert_eq!(code(scene.ask("other", None, &[])), Some(ErrorCode::DialogBusy));
    }
    scene.answer(Answer::Allow);
    for _ in 0..3 {
        scene.grant("agent");
    }
    assert_eq!(code(scene.ask("agent", None, &[])), Some(ErrorCode::TooManyGrants));
}

#[test]
fn silence_denies_unless_the_owner_said_otherwise_for_that_path() {
    let mut scene = Scene::new(|_| {});
    let request = scene.ask("agent", None, &[]).unwrap();
    scene.answer(Answer::TimedOut);
    let polled = scene.gate.poll(scene.at(), &key_name("agent"), &PathName::browser(), request).unwrap();
    assert!(matches!(polled, Polled::Denied(failure) if failure.code == ErrorCode::TimedOut));

    let mut scene = Scene::new(|rules| rules.on_timeout = OnTimeout::Allow { keys: None, hours: None });
    for answer in [Answer::Reject, Answer::NoDisplay, Answer::ScreenLocked, Answer::Withdrawn] {
        scene.ask("agent", None, &[]).unwrap();
        scene.answer(answer);
        assert!(scene.gate.snapshot().grants.is_empty(), "{answer:?}");
    }
    scene.ask("agent", None, &[]).unwrap();
    scene.answer(Answer::TimedOut);
    assert_eq!(scene.gate.snapshot().grants.len(), 1);
}

#[test]
fn a_dialog_that_hangs_is_a_denial_under_either_rule() {
    let mut scene = Scene::new(|rules| rules.on_timeout = OnTimeout::Allow { keys: None, hours: None });
    scene.ask("agent", None, &[]).unwrap();
    scene.now = 13 * SECOND;
    assert_eq!(scene.gate.next_tick(), Some(Moment(13 * SECOND)));
    scene.gate.tick(scene.at());
    let snapshot = scene.gate.snapshot();
    assert!(snapshot.on_screen.is_none() && snapshot.grants.is_empty());
    assert!(scene.gate.take_effects().iter().any(|effect| matches!(effect, Effect::Withdraw(_))));
}

#[test]
fn cooling_down_and_kill_quiet_the_path_and_a_plain_rejection_does_not() {
    let mut scene = Scene::new(|_| {});
    scene.ask("agent", None, &[]).unwrap();
    scene.answer(Answer::Reject);
    scene.ask("agent", None, &[]).unwrap();
    scene.answer(Answer::CoolDown);
    let failure = scene.ask("other", None, &[]).unwrap_err();
    assert_eq!((failure.code, failure.retry_after_ms), (ErrorCode::Cooldown, Some(60 * SECOND)));
    scene.now = 60 * SECOND;
    scene.grant("other");
    assert_eq!(scene.gate.kill(scene.at(), EndReason::Killed, &Which::All), 1);
    assert_eq!(code(scene.ask("other", None, &[])), Some(ErrorCode::Cooldown));
}

#[test]
fn a_key_that_was_denied_three_times_waits() {
    let mut scene = Scene::new(|_| {});
    for answer in [Answer::Reject, Answer::TimedOut, Answer::Reject] {
        scene.ask("pest", None, &[]).unwrap();
        scene.answer(answer);
    }
    let failure = scene.ask("pest", None, &[]).unwrap_err();
    assert_eq!((failure.code, failure.retry_after_ms), (ErrorCode::AskedTooOften, Some(60 * SECOND)));
    assert!(scene.ask("other", None, &[]).is_ok(), "another key does not wait for it");
}

#[test]
fn a_key_whose_callers_go_away_from_three_dialogs_waits() {
    let mut scene = Scene::new(|_| {});
    for _ in 0..3 {
        let request = scene.ask("pest", None, &[]).unwrap();
        scene.gate.abandon(scene.at(), request);
    }
    assert_eq!(code(scene.ask("pest", None, &[])), Some(ErrorCode::AskedTooOften));
}

#[test]
fn one_click_is_one_call() {
    let mut scene = Scene::new(|_| {});
    let (_, label) = scene.grant("agent");
    let kind = || QuestionKind::Tool {
        tool: "evaluate_script".into(),
        target: "https://example.com".into(),
        text: "1".into(),
        for_grant: true,
    };
    let first = scene.gate.ask(scene.at(), Some(&label), kind()).unwrap();
    let second = scene.gate.ask(scene.at(), Some(&label), kind()).unwrap();
    assert_ne!(first, second);
}

#[test]
fn killing_denies_what_is_asked_for_on_the_path_right_now() {
    for which in [Which::All, Which::Path(PathName::browser())] {
        let mut scene = Scene::new(|rules| rules.on_timeout = OnTimeout::Allow { keys: None, hours: None });
        let request = scene.ask("agent", None, &[]).unwrap();
        let dialog = scene.on_screen();
        assert_eq!(scene.gate.kill(scene.at(), EndReason::Killed, &which), 0, "nothing ran");
        assert!(scene.gate.take_effects().contains(&Effect::Withdraw(dialog)));
        scene.gate.answer(scene.at(), dialog, Answer::TimedOut);
        let polled = scene.gate.poll(scene.at(), &key_name("agent"), &PathName::browser(), request).unwrap();
        assert!(matches!(polled, Polled::Denied(failure) if failure.code == ErrorCode::Rejected));
        assert_eq!(code(scene.ask("agent", None, &[])), Some(ErrorCode::Cooldown));
    }
    let mut scene = Scene::new(|_| {});
    let (_, label) = scene.grant("agent");
    scene.ask("agent", None, &[]).unwrap();
    assert_eq!(scene.gate.kill(scene.at(), EndReason::Killed, &Which::Labels(vec![label])), 1);
    assert_eq!(scene.gate.snapshot().on_screen, None);
}

#[test]
fn questions_that_are_declined_over_and_over_make_the_key_wait() {
    let mut scene = Scene::new(|_| {});
    let (_, label) = scene.grant("agent");
    let question = |n: usize| QuestionKind::Tool {
        tool: "evaluate_script".into(),
        target: "https://example.com".into(),
        text: n.to_string(),
        for_grant: true,
    };
    for n in 0..5 {
        scene.gate.ask(scene.at(), Some(&label), question(n)).unwrap();
    }
    for answer in [Answer::Reject, Answer::TimedOut, Answer::Reject] {
        scene.answer(answer);
    }
    let snapshot = scene.gate.snapshot();
    assert_eq!((snapshot.on_screen, snapshot.waiting), (None, 0), "the others are not put either");
    let failure = scene.gate.ask(scene.at(), Some(&label), question(9)).unwrap_err();
    assert_eq!((failure.code, failure.retry_after_ms), (ErrorCode::AskedTooOften, Some(60 * SECOND)));

    let mut scene = Scene::new(|_| {});
    let (_, label) = scene.grant("agent");
    for n in 0..10 {
        scene.gate.ask(scene.at(), Some(&label), question(n)).unwrap();
        scene.answer(if n % 3 == 2 { Answer::Allow } else { Answer::Reject });
    }
}

#[test]
fn a_screen_that_cannot_show_the_dialog_is_not_held_against_the_key() {
    let mut scene = Scene::new(|_| {});
    for _ in 0..5 {
        scene.ask("agent", None, &[]).unwrap();
        scene.answer(Answer::ScreenLocked);
    }
}

#[test]
fn disabling_ends_everything_and_enabling_brings_nothing_back() {
    let mut scene = Scene::new(|_| {});
    let (id, _) = scene.grant("agent");
    let request = scene.ask("agent", None, &[]).unwrap();
    let dialog = scene.on_screen();
    scene.gate.disable(scene.at());
    scene.gate.answer(scene.at(), dialog, Answer::Allow);
    assert_eq!(scene.admit("agent", &id), Err(ErrorCode::Disabled));
    assert_eq!(code(scene.ask("agent", None, &[])), Some(ErrorCode::Disabled));
    scene.gate.enable();
    assert_eq!(scene.admit("agent", &id), Err(ErrorCode::NoGrant));
    let polled = scene.gate.poll(scene.at(), &key_name("agent"), &PathName::browser(), request).unwrap();
    assert!(matches!(polled, Polled::Denied(_)));
}

#[test]
fn a_pending_request_is_answered_only_to_its_own_key_and_path() {
    let mut scene = Scene::new(|_| {});
    let request = scene.ask("agent", None, &[]).unwrap();
    scene.answer(Answer::Allow);
    let shell: PathName = "shell".parse().unwrap();
    for (key, path) in [("other", PathName::browser()), ("agent", shell)] {
        assert_eq!(
            code(scene.gate.poll(scene.at(), &key_name(key), &path, request)),
            Some(ErrorCode::UnknownRequest)
        );
    }
}

#[test]
fn sites_are_asked_about_on_first_touch_and_remembered_for_path_key_and_profile() {
    let mut scene = Scene::new(|_| {});
    let (_, label) = scene.grant("agent");
    let shop = Origin::parse("https://shop.example.com/cart").unwrap();
    let SiteVerdict::Ask(site) = scene.gate.site(scene.at(), &label, &profile(), &shop) else { panic!() };
    let question = QuestionKind::Site { site: site.clone(), profile: profile() };
    let first = scene.gate.ask(scene.at(), Some(&label), question.clone()).unwrap();
    assert_eq!(
        scene.gate.ask(scene.at(), Some(&label), question.clone()).unwrap(),
        first,
        "the same question is asked once"
    );
    scene.answer(Answer::Allow);
    assert_eq!(scene.gate.site(scene.at(), &label, &profile(), &shop), SiteVerdict::Allowed);
    let expected = Remembered { path: PathName::browser(), key: key_name("agent"), profile: profile(), site };
    assert_eq!(scene.gate.remembered(), std::slice::from_ref(&expected));

    let (_, second) = scene.grant("agent");
    assert_eq!(scene.gate.site(scene.at(), &second, &profile(), &shop), SiteVerdict::Allowed);
    let elsewhere: ProfileId = "zzzz".parse().unwrap();
    assert!(matches!(scene.gate.site(scene.at(), &second, &elsewhere, &shop), SiteVerdict::Ask(_)));
    let (_, other) = scene.grant("other");
    assert!(matches!(scene.gate.site(scene.at(), &other, &profile(), &shop), SiteVerdict::Ask(_)));

    assert_eq!(scene.gate.forget(|remembered| *remembered == expected), 1);
    assert!(matches!(scene.gate.site(scene.at(), &label, &profile(), &shop), SiteVerdict::Ask(_)));
}

#[test]
fn a_declined_site_is_not_asked_about_for_ten_minutes_and_silence_declines() {
    for answer in [Answer::Reject, Answer::TimedOut] {
        let mut scene = Scene::new(|rules| rules.idle = Duration::from_secs(3600));
        let (_, label) = scene.grant("agent");
        let origin = Origin::parse("http://localhost:8080/").unwrap();
        let kind = QuestionKind::Site { site: origin.site(), profile: profile() };
        scene.gate.ask(scene.at(), Some(&label), kind).unwrap();
        scene.answer(answer);
        let verdict = scene.gate.site(scene.at(), &label, &profile(), &origin);
        assert_eq!(verdict, SiteVerdict::Declined { retry_after_ms: 10 * MINUTE });
        scene.now = 10 * MINUTE;
        assert!(matches!(scene.gate.site(scene.at(), &label, &profile(), &origin), SiteVerdict::Ask(_)));
        assert!(scene.gate.remembered().is_empty());
    }
}

#[test]
fn named_sites_are_allowed_for_the_grant_and_not_remembered() {
    let mut scene = Scene::new(|_| {});
    let request = scene.ask("agent", None, &["example.com"]).unwrap();
    scene.answer(Answer::Allow);
    let Ok(Polled::Allowed(_, view)) =
        scene.gate.poll(scene.at(), &key_name("agent"), &PathName::browser(), request)
    else {
        panic!()
    };
    let origin = Origin::parse("https://docs.example.com/").unwrap();
    assert_eq!(scene.gate.site(scene.at(), &view.label, &profile(), &origin), SiteVerdict::Allowed);
    assert!(scene.gate.remembered().is_empty());

    let mut open = Scene::new(|rules| rules.sites = SiteRule::Any);
    let (_, label) = open.grant("agent");
    assert_eq!(open.gate.site(open.at(), &label, &profile(), &origin), SiteVerdict::Allowed);
}

#[test]
fn a_switched_tool_asks_each_time_until_it_is_allowed_for_the_grant() {
    let mut scene = Scene::new(|rules| {
        rules.switches.insert("evaluate_script".into(), Switch::Ask);
        rules.switches.insert("read_cookies".into(), Switch::Off);
    });
    let (_, label) = scene.grant("agent");
    assert_eq!(scene.gate.tool(&label, "read_page", false), ToolVerdict::Allowed);
    assert_eq!(scene.gate.tool(&label, "read_cookies", false), ToolVerdict::Off);
    for (answer, then) in [
        (Answer::Allow, ToolVerdict::Ask),
        (Answer::TimedOut, ToolVerdict::Ask),
        (Answer::AllowForGrant, ToolVerdict::Allowed),
    ] {
        assert_eq!(scene.gate.tool(&label, "evaluate_script", true), ToolVerdict::Ask);
        let kind = QuestionKind::Tool {
            tool: "evaluate_script".into(),
            target: "https://example.com".into(),
            text: "1".into(),
            for_grant: true,
        };
        scene.gate.ask(scene.at(), Some(&label), kind).unwrap();
        scene.answer(answer);
        assert_eq!(scene.gate.tool(&label, "evaluate_script", true), then, "{answer:?}");
    }
    let (_, other) = scene.grant("agent");
    assert_eq!(scene.gate.tool(&other, "evaluate_script", true), ToolVerdict::Ask, "another grant asks anew");
}

#[test]
fn asking_about_changes_is_a_rule_of_the_path() {
    let mut scene = Scene::new(|rules| rules.ask_changes = true);
    let (_, label) = scene.grant("agent");
    assert_eq!(scene.gate.tool(&label, "click_element", true), ToolVerdict::Ask);
    assert_eq!(scene.gate.tool(&label, "read_page", false), ToolVerdict::Allowed);
}

#[test]
fn eight_questions_wait_and_they_end_with_their_grant() {
    let mut scene = Scene::new(|_| {});
    let (_, label) = scene.grant("agent");
    let ask = |scene: &mut Scene, n: u16| {
        let origin = Origin::parse(&format!("http://localhost:{n}/")).unwrap();
        let kind = QuestionKind::Site { site: origin.site(), profile: profile() };
        scene.gate.ask(scene.at(), Some(&label), kind)
    };
    for n in 0..9 {
        ask(&mut scene, 1000 + n).unwrap();
    }
    assert_eq!(code(ask(&mut scene, 2000)), Some(ErrorCode::TooManyQuestions));
    let _ = scene.gate.take_effects();
    scene.gate.end(scene.at(), EndReason::Killed, |_| true);
    let settled = scene.gate.take_effects();
    let refused =
        settled.iter().filter(|effect| matches!(effect, Effect::Settled { allowed: Err(_), .. })).count();
    assert_eq!(refused, 9);
    assert!(scene.gate.snapshot().on_screen.is_none());
}

#[test]
fn a_question_that_nobody_waits_for_leaves_the_screen() {
    let mut scene = Scene::new(|_| {});
    let (_, label) = scene.grant("agent");
    let question = |n: u16| QuestionKind::Site {
        site: Origin::parse(&format!("http://localhost:{n}/")).unwrap().site(),
        profile: profile(),
    };
    let first = scene.gate.ask(scene.at(), Some(&label), question(1)).unwrap();
    let second = scene.gate.ask(scene.at(), Some(&label), question(2)).unwrap();
    let third = scene.gate.ask(scene.at(), Some(&label), question(3)).unwrap();
    scene.gate.withdraw(scene.at(), second);
    scene.gate.withdraw(scene.at(), first);
    assert_eq!(scene.on_screen(), third);
}

#[test]
fn stricter_rules_hold_for_grants_that_live() {
    let mut scene = Scene::new(|_| {});
    let (id, _) = scene.grant("agent");
    let mut rules = scene.gate.rules().clone();
    for path in rules.paths.values_mut() {
        path.max_minutes = 5;
    }
    scene.gate.set_rules(scene.at(), rules);
    scene.now = 5 * MINUTE;
    assert_eq!(scene.admit("agent", &id), Err(ErrorCode::NoGrant));
    assert_eq!(scene.ended(), [EndReason::Expired]);
}
