use proptest::prelude::*;

use super::*;

const SYNTHETIC: Source = Source::Program(IgnoredClick::SyntheticDevice);
const START: Time = Time(u32::MAX - 2_000);

fn at(milliseconds: u32) -> Time {
    START.after(milliseconds)
}

fn click(milliseconds: u32, target: Option<usize>) -> Click {
    Click { at: at(milliseconds), target, source: Source::Pointer }
}

fn settled() -> Verdict {
    let mut verdict = Verdict::default();
    verdict.settle(START);
    verdict
}

/// A press at 1000 ms and a release at 1080 ms, by a real pointer.
fn clicked(target: usize) -> Verdict {
    let mut verdict = settled();
    assert_eq!(verdict.press(click(1_000, Some(target))), None);
    verdict.release(click(1_080, Some(target)));
    verdict
}

#[test]
fn a_real_click_answers_after_the_guard_and_not_before() {
    let mut verdict = clicked(1);
    assert_eq!(verdict.decidable_at(), Some(at(1_180)));
    assert_eq!(verdict.confirm(at(1_179)), None);
    assert_eq!(verdict.confirm(at(1_180)), Some(Decision::Answer(1)));
    assert_eq!(verdict.confirm(at(1_181)), None, "it answers once");
}

#[test]
fn the_window_must_have_stood_still_before_the_press() {
    for (press, expected) in [(699, Some(IgnoredClick::NotSettled)), (700, None)] {
        assert_eq!(settled().press(click(press, Some(0))), expected, "press at {press} ms");
    }
    assert_eq!(Verdict::default().press(click(5_000, Some(0))), Some(IgnoredClick::NotSettled));
}

#[test]
fn a_press_made_before_the_window_settled_and_delivered_late_is_refused() {
    let mut verdict = Verdict::default();
    verdict.settle(at(1_500));
    assert_eq!(verdict.press(click(1_000, Some(0))), Some(IgnoredClick::NotSettled));
}

#[test]
fn a_posted_button_spoils_the_click_on_either_side() {
    for (posted, spoiled) in [(899, false), (900, true), (1_040, true), (1_180, true), (1_181, false)] {
        let mut verdict = clicked(0);
        verdict.posted(at(posted), at(posted), Posted::Button);
        let expected =
            if spoiled { Decision::Ignored(IgnoredClick::PostedNearby) } else { Decision::Answer(0) };
        assert_eq!(verdict.confirm(at(1_200)), Some(expected), "posted at {posted} ms");
    }
}

#[test]
fn a_pointer_that_a_program_put_there_spoils_the_click() {
    for (posted, spoiled) in [(299, false), (300, true), (1_000, true), (1_080, true), (1_081, false)] {
        let mut verdict = clicked(0);
        verdict.posted(at(posted), at(posted), Posted::Motion);
        let expected =
            if spoiled { Decision::Ignored(IgnoredClick::PostedNearby) } else { Decision::Answer(0) };
        assert_eq!(verdict.confirm(at(1_200)), Some(expected), "moved at {posted} ms");
    }
}

#[test]
fn a_flood_does_not_hide_a_posted_click() {
    let mut verdict = clicked(0);
    verdict.posted(at(1_000), at(1_000), Posted::Button);
    for _ in 0..2 * POSTED_KEPT {
        verdict.posted(at(1_000), at(100_000), Posted::Motion);
    }
    assert_eq!(verdict.confirm(at(1_200)), Some(Decision::Ignored(IgnoredClick::PostedNearby)));
}

#[test]
fn a_busy_agent_does_not_become_a_flood() {
    let mut verdict = settled();
    for moment in 0..20_000 {
        verdict.posted(at(moment), at(moment), Posted::Motion);
    }
    assert_eq!(verdict.press(click(30_000, Some(0))), None);
    verdict.release(click(30_050, Some(0)));
    assert_eq!(verdict.confirm(at(30_150)), Some(Decision::Answer(0)));
}

#[test]
fn posted_devices_and_processes_are_named() {
    for reason in [IgnoredClick::SyntheticDevice, IgnoredClick::SourceProcess] {
        let source = Source::Program(reason);
        let mut verdict = settled();
        let posted = Click { source, ..click(1_000, Some(1)) };
        assert_eq!(verdict.press(posted), Some(reason));
        verdict.release(Click { source, ..click(1_050, Some(1)) });
        assert_eq!(verdict.confirm(at(2_000)), None);
    }
}

#[test]
fn a_real_press_is_not_finished_by_a_posted_release() {
    let mut verdict = settled();
    assert_eq!(verdict.press(click(1_000, Some(1))), None);
    verdict.release(Click { source: SYNTHETIC, ..click(1_050, Some(1)) });
    assert_eq!(verdict.confirm(at(2_000)), None);
}

#[test]
fn a_posted_press_does_not_undo_the_owners() {
    let mut verdict = settled();
    assert_eq!(verdict.press(click(1_000, Some(0))), None);
    let posted = Click { source: SYNTHETIC, ..click(1_020, Some(0)) };
    assert_eq!(verdict.press(posted), Some(IgnoredClick::SyntheticDevice));
    verdict.posted(at(1_020), at(1_020), Posted::Button);
    verdict.release(click(1_050, Some(0)));
    assert_eq!(verdict.confirm(at(1_200)), Some(Decision::Ignored(IgnoredClick::PostedNearby)));
    assert!(!verdict.silence_counts());
}

#[test]
fn press_and_release_must_be_on_the_same_button() {
    for (down, up) in [(Some(0), Some(1)), (Some(0), None), (None, Some(0)), (None, None)] {
        let mut verdict = settled();
        assert_eq!(verdict.press(click(1_000, down)), None);
        verdict.release(click(1_050, up));
        assert_eq!(verdict.confirm(at(2_000)), None, "{down:?} to {up:?}");
    }
}

#[test]
fn a_disturbance_refuses_a_click_under_way() {
    let mut held = settled();
    held.press(click(1_000, Some(0)));
    assert_eq!(held.unsettle(), Some(IgnoredClick::NotSettled));
    held.settle(at(1_010));
    held.release(click(1_050, Some(0)));
    assert_eq!(held.confirm(at(2_000)), None);

    let mut waiting = clicked(0);
    assert_eq!(waiting.unsettle(), Some(IgnoredClick::NotSettled));
    assert_eq!(waiting.confirm(at(2_000)), None);
}

#[test]
fn a_disturbance_starts_the_settling_again() {
    let mut verdict = settled();
    assert_eq!(verdict.unsettle(), None);
    verdict.settle(at(2_000));
    assert_eq!(verdict.press(click(2_699, Some(0))), Some(IgnoredClick::NotSettled));
    assert_eq!(verdict.press(click(2_700, Some(0))), None);
}

#[test]
fn silence_counts_only_if_the_dialog_could_be_answered() {
    assert!(settled().silence_counts());
    assert!(!Verdict::default().silence_counts());

    let mut early = settled();
    early.press(click(100, Some(0)));
    assert!(!early.silence_counts(), "the owner clicked, too early");

    let mut spoiled = clicked(0);
    spoiled.posted(at(1_000), at(1_000), Posted::Button);
    spoiled.confirm(at(1_200));
    assert!(!spoiled.silence_counts(), "the owner clicked, and a program spoiled it");

    let mut held = settled();
    held.press(click(1_000, Some(0)));
    assert!(!held.silence_counts(), "the button is still down");
    held.release(click(1_050, None));
    assert!(!held.silence_counts(), "the pointer was elsewhere when it went up");

    let mut posted = settled();
    posted.press(Click { source: SYNTHETIC, ..click(1_000, Some(0)) });
    assert!(posted.silence_counts(), "a program's click is not the owner's");
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Settle,
    Unsettle,
    Posted(Posted),
    Press(Option<usize>, Source),
    Release(Option<usize>, Source),
    Confirm,
}

fn step() -> impl Strategy<Value = Step> {
    let target = || prop::option::weighted(0.9, 0..2_usize);
    let source = || prop_oneof![4 => Just(Source::Pointer), 1 => Just(SYNTHETIC)];
    prop_oneof![
        2 => Just(Step::Settle),
        1 => Just(Step::Unsettle),
        1 => Just(Step::Posted(Posted::Button)),
        1 => Just(Step::Posted(Posted::Motion)),
        4 => (target(), source()).prop_map(|(target, source)| Step::Press(target, source)),
        4 => (target(), source()).prop_map(|(target, source)| Step::Release(target, source)),
        4 => Just(Step::Confirm),
    ]
}

/// What an answer needs, looked up in the whole history instead of kept in a state.
fn justified(history: &[(u32, Step)], target: usize) -> bool {
    let real = |step: Step| match step {
        Step::Press(Some(on), Source::Pointer) | Step::Release(Some(on), Source::Pointer) => on == target,
        _ => false,
    };
    history.iter().enumerate().any(|(index, &(press, step))| {
        if !matches!(step, Step::Press(..)) || !real(step) {
            return false;
        }
        let still = history[..index].iter().rev().find_map(|&(time, step)| match step {
            Step::Settle => Some(press - time >= SETTLE_MS),
            Step::Unsettle => Some(false),
            _ => None,
        });
        let release =
            history[index..].iter().find(|(_, step)| matches!(step, Step::Release(_, Source::Pointer)));
        let Some(&(release, up)) = release else { return false };
        let clean = history.iter().all(|&(time, step)| match step {
            Step::Posted(Posted::Button) => time + GUARD_MS < press || time > release + GUARD_MS,
            Step::Posted(Posted::Motion) => time + SETTLE_MS < press || time > release,
            _ => true,
        });
        let undisturbed = !history[index..].iter().any(|(_, step)| matches!(step, Step::Unsettle));
        still == Some(true) && real(up) && clean && undisturbed
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_order_of_events_answers_without_a_justified_click(
        steps in prop::collection::vec((0..900_u32, step()), 1..40),
        offset in any::<u32>(),
    ) {
        let mut verdict = Verdict::default();
        let mut now = 0;
        let mut history = Vec::new();
        for (pause, step) in steps {
            now += pause;
            history.push((now, step));
            let time = Time(offset).after(now);
            match step {
                Step::Settle => verdict.settle(time),
                Step::Unsettle => drop(verdict.unsettle()),
                Step::Posted(what) => verdict.posted(time, time, what),
                Step::Press(target, source) => drop(verdict.press(Click { at: time, target, source })),
                Step::Release(target, source) => verdict.release(Click { at: time, target, source }),
                Step::Confirm => {
                    if let Some(Decision::Answer(target)) = verdict.confirm(time) {
                        prop_assert!(justified(&history, target), "{target} in {history:?}");
                        return Ok(());
                    }
                }
            }
        }
    }
}
