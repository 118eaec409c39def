use consentry_wire::forbidden::HubPorts;
use consentry_wire::frame::{Call, Op, State};
use consentry_wire::proof::Hub;
use consentry_wire::{Epoch, version};
use proptest::prelude::*;

use super::*;

const TOKEN: &str = "a-token-of-some-length";
const PORT: u16 = 7312;

fn hello() -> Hello {
    Hello {
        version: version::CURRENT,
        build: "0.1.0".into(),
        profile: "k3x9".parse().unwrap(),
        worker: "w1".into(),
        name: String::new(),
        browser: "Chromium 156".into(),
        install: "development".into(),
    }
}

fn welcome() -> Welcome {
    Welcome {
        version: version::CURRENT,
        build: "0.1.0".into(),
        machine: "desk".into(),
        ports: HubPorts { mcp: 7311, control: PORT },
    }
}

fn say(machine: &mut Machine, frame: &ToExtension) -> Vec<Action> {
    machine.message(frame::write(frame), &hello(), 1.0)
}

fn relay_says(machine: &mut Machine, word: &FromRelay) -> Vec<Action> {
    machine.message(frame::write(word), &hello(), 1.0)
}

fn state() -> ToExtension {
    ToExtension::State(State { epoch: Epoch(1), ..State::default() })
}

fn call() -> ToExtension {
    ToExtension::Call(Call { id: 1, grant: "ABCD".parse().unwrap(), deadline_ms: 1000, op: Op::ListTabs })
}

fn sent(actions: &[Action]) -> Vec<&str> {
    let texts = actions.iter().filter_map(|action| match action {
        Action::Send(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn linked_native() -> Machine {
    let mut machine = Machine::new(Via::Native, PORT, 0.0);
    relay_says(&mut machine, &FromRelay::HubHere);
    assert_eq!(say(&mut machine, &ToExtension::Welcome(welcome())), [Action::Linked(welcome())]);
    machine
}

#[test]
fn nothing_about_this_browser_is_said_before_the_hub_proved_itself() {
    let mut machine = Machine::new(Via::WebSocket, PORT, 0.0);
    let opening = machine.opened(TOKEN, [1; 32], 0.0);
    let challenge: Handshake = frame::read(sent(&opening)[0]).unwrap();
    let (_, forged) =
        Hub::answer(Token::new("another-token-entirely").unwrap(), &challenge, [2; 32]).unwrap();
    let answer = machine.message(frame::write(&forged), &hello(), 1.0);
    assert_eq!(answer, [Action::Close(Trouble::WrongToken { port: PORT })]);
    assert_eq!(say(&mut machine, &ToExtension::Welcome(welcome())), []);
}

#[test]
fn the_opening_over_websocket() {
    let mut machine = Machine::new(Via::WebSocket, PORT, 0.0);
    let opening = machine.opened(TOKEN, [1; 32], 0.0);
    let challenge: Handshake = frame::read(sent(&opening)[0]).unwrap();
    let (hub, answer) = Hub::answer(Token::new(TOKEN).unwrap(), &challenge, [2; 32]).unwrap();
    let reply = machine.message(frame::write(&answer), &hello(), 1.0);
    let reply = sent(&reply);
    assert_eq!(hub.finish(&frame::read(reply[0]).unwrap()), Ok(()));
    assert_eq!(frame::read::<FromExtension>(reply[1]).unwrap(), FromExtension::Hello(hello()));
    assert_eq!(say(&mut machine, &state()), [], "a state before the welcome is not obeyed");
    assert_eq!(say(&mut machine, &ToExtension::Welcome(welcome())), [Action::Linked(welcome())]);
    assert_eq!(say(&mut machine, &state()), [Action::Obey(state())]);
    assert_eq!(machine.ended(), [Action::Lost]);
}

#[test]
fn a_relay_says_when_the_hub_comes_and_goes() {
    let mut machine = Machine::new(Via::Native, PORT, 0.0);
    assert_eq!(say(&mut machine, &call()), []);
    let gone = FromRelay::HubGone { reason: "it stopped".into() };
    assert_eq!(relay_says(&mut machine, &gone), [Action::HubGone("it stopped".into())]);
    assert_eq!(machine.tick(1e9), [], "a relay may wait for ever");
    let here = relay_says(&mut machine, &FromRelay::HubHere);
    assert_eq!(sent(&here), [frame::write(&FromExtension::Hello(hello()))]);
    say(&mut machine, &ToExtension::Welcome(welcome()));
    assert_eq!(relay_says(&mut machine, &gone), [Action::Lost, Action::HubGone("it stopped".into())]);
    assert_eq!(say(&mut machine, &call()), [], "what was still under way is not obeyed");
}

/// A hub that restarts may be back before the relay said that it was gone.
#[test]
fn another_hub_is_greeted_anew_and_what_the_first_allowed_is_lost() {
    let mut machine = linked_native();
    let again = relay_says(&mut machine, &FromRelay::HubHere);
    assert_eq!(again[0], Action::Lost);
    assert_eq!(sent(&again).len(), 1);
    assert_eq!(say(&mut machine, &call()), []);
}

#[test]
fn half_a_frame_of_a_lost_hub_is_forgotten() {
    let mut machine = linked_native();
    let half = r#"{"chunk":{"n":0,"of":2},"data":"x"}"#.to_owned();
    assert_eq!(machine.message(half, &hello(), 1.0), []);
    relay_says(&mut machine, &FromRelay::HubHere);
    assert_eq!(say(&mut machine, &ToExtension::Welcome(welcome())), [Action::Linked(welcome())]);
}

#[test]
fn a_refusal_and_another_major_end_the_connection_with_their_reason() {
    let error = Failure::new(ErrorCode::ProfileTaken, "that profile is linked");
    let mut machine = Machine::new(Via::Native, PORT, 0.0);
    relay_says(&mut machine, &FromRelay::HubHere);
    let refused = say(&mut machine, &ToExtension::Refused { error: error.clone() });
    assert_eq!(refused, [Action::Close(Trouble::Refused { error })]);

    let mut machine = Machine::new(Via::Native, PORT, 0.0);
    relay_says(&mut machine, &FromRelay::HubHere);
    let mut other = welcome();
    other.version.major += 1;
    let actions = say(&mut machine, &ToExtension::Welcome(other));
    assert!(matches!(
        &actions[..],
        [Action::Close(Trouble::Refused { error })] if error.code == ErrorCode::VersionSkew
    ));
}

#[test]
fn silence_ends_a_link_and_pings_are_answered() {
    let mut machine = linked_native();
    assert_eq!(say(&mut machine, &ToExtension::Ping), [Action::Send(frame::write(&FromExtension::Pong))]);
    assert_eq!(machine.tick(20_000.0), []);
    let ended = machine.tick(40_000.0);
    assert!(matches!(&ended[..], [Action::Lost, Action::Close(Trouble::Broken { .. })]));
}

#[test]
fn a_call_of_a_newer_hub_is_answered_and_other_frames_are_passed_over() {
    let mut machine = linked_native();
    let newer = r#"{"type":"call","id":9,"grant":"ABCD","deadline_ms":1,"op":{"op":"teleport"}}"#;
    let answer = machine.message(newer.into(), &hello(), 1.0);
    let FromExtension::Failed { id, error } = frame::read(sent(&answer)[0]).unwrap() else { panic!() };
    assert_eq!((id, error.code), (9, ErrorCode::BadFrame));
    assert_eq!(machine.message(r#"{"type":"news"}"#.into(), &hello(), 1.0), []);
}

#[derive(Debug, Clone)]
enum Step {
    Here,
    Gone,
    Welcome,
    State,
    Call,
    Noise(String),
    Tick(f64),
    Ended,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Here),
        Just(Step::Gone),
        Just(Step::Welcome),
        Just(Step::State),
        Just(Step::Call),
        ".{0,40}".prop_map(Step::Noise),
        (0.0..40_000.0).prop_map(Step::Tick),
        Just(Step::Ended),
    ]
}

proptest! {
    /// Whatever comes in whatever order: obeying happens only between a welcome and the next loss.
    #[test]
    fn only_a_linked_hub_is_obeyed(steps in proptest::collection::vec(step(), 1..60)) {
        let mut machine = Machine::new(Via::Native, PORT, 0.0);
        let mut linked = false;
        for step in steps {
            let actions = match step {
                Step::Here => relay_says(&mut machine, &FromRelay::HubHere),
                Step::Gone => relay_says(&mut machine, &FromRelay::HubGone { reason: String::new() }),
                Step::Welcome => say(&mut machine, &ToExtension::Welcome(welcome())),
                Step::State => say(&mut machine, &state()),
                Step::Call => say(&mut machine, &call()),
                Step::Noise(text) => machine.message(text, &hello(), 1.0),
                Step::Tick(now) => machine.tick(now),
                Step::Ended => machine.ended(),
            };
            for action in actions {
                match action {
                    Action::Linked(_) => { prop_assert!(!linked); linked = true; }
                    Action::Lost => { prop_assert!(linked); linked = false; }
                    Action::Obey(_) => prop_assert!(linked),
                    Action::HubGone(_) | Action::Close(_) => prop_assert!(!linked),
                    Action::Send(_) => {}
                }
            }
            prop_assert_eq!(machine.is_linked(), linked);
        }
    }
}
