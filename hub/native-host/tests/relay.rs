//! The real program between a browser's pipes and a hub's socket.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test's own failure")]

mod support;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use consentry_wire::chunk::{Joiner, MAX_PIECE, split};
use consentry_wire::frame::FromRelay;
use consentry_wire::socket::{MAX_LINE, files};

use support::{FakeHub, HELLO, Relay, SOON, State, TOKEN, write_native};

/// A frame whose text would change if anything read it and wrote it again.
const ODD: &str = r#"{ "type" : "done", "id":1.50, "x":1, "x":2, "y":"\u0041\/é" }"#;

#[test]
fn frames_pass_unread_both_ways() {
    let state = State::new();
    let (mut relay, _hub, mut link) = state.linked();
    relay.send(ODD);
    assert_eq!(link.line(), ODD);
    link.write(ODD);
    assert_eq!(relay.frame(), ODD);

    let (status, notes) = relay.quit(SOON);
    assert!(status.success());
    assert!(!notes.contains(TOKEN) && !notes.contains("done"), "{notes}");
}

#[test]
fn without_a_hub_it_says_so_once_and_links_when_one_comes() {
    let state = State::new();
    let mut relay = state.relay();
    assert_eq!(relay.lost(), "consentry is not running on this machine");
    relay.send(r#"{"type":"done","id":1,"result":"of no hub"}"#);
    relay.send(HELLO);
    // Several attempts, and the pauses between them reach their longest.
    assert!(relay.is_silent_for(Duration::from_millis(1800)));

    let hub = state.hub();
    let since = Instant::now();
    let mut link = hub.accept().prove();
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    assert_eq!(relay.said(), FromRelay::HubHere);
    relay.send(HELLO);
    assert_eq!(link.line(), HELLO);
    assert!(relay.quit(SOON).0.success());
}

#[test]
fn a_restarted_hub_proves_itself_again_and_gets_nothing_that_was_meant_for_the_one_before() {
    let state = State::new();
    let (mut relay, hub, link) = state.linked();
    let since = Instant::now();
    hub.stop(vec![link]);
    assert_eq!(relay.lost(), "consentry stopped");
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    relay.send(r#"{"type":"done","id":1,"result":"while it was away"}"#);

    // A hub that made its token anew.
    let token = "another-token-of-the-same-hub";
    state.write_token(token);
    let hub = FakeHub::bind(&state, token);
    let mut link = hub.accept().prove();
    assert_eq!(relay.said(), FromRelay::HubHere);
    relay.send(r#"{"type":"done","id":2,"result":"under way when it came"}"#);
    relay.send(HELLO);
    assert_eq!(link.line(), HELLO);
    relay.send(r#"{"type":"pong"}"#);
    assert_eq!(link.line(), r#"{"type":"pong"}"#);

    hub.stop_and_remove(vec![link]);
    assert_eq!(relay.lost(), "consentry stopped");
    let hub = FakeHub::bind(&state, token);
    let _link = hub.accept().prove();
    assert_eq!(relay.said(), FromRelay::HubHere);
    assert!(relay.quit(SOON).0.success());
}

#[test]
fn a_squatter_learns_a_nonce_and_moves_nothing() {
    let state = State::new();
    let squatter = state.hub();
    let mut relay = state.relay();
    relay.send(HELLO);

    // It answers with what it was sent: the nonce, and a proof that it cannot make.
    let mut link = squatter.accept();
    let challenge: serde_json::Value = serde_json::from_str(&link.line()).unwrap();
    let keys: Vec<_> = challenge.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["nonce", "type"]);
    let nonce = challenge["nonce"].as_str().unwrap();
    let frame = r#"{"type":"call","id":1}"#;
    link.write(&format!(r#"{{"type":"answer","nonce":"{nonce}","proof":"{nonce}"}}"#));
    let _ = link.stream().write_all(format!("{frame}\n").as_bytes());
    assert_eq!(link.rest(), "");
    assert!(relay.lost().contains("is not this machine's hub: the proof is wrong"));

    // The nonce is never the same, and skipping the handshake helps as little.
    for answer in [frame, "", "nonsense", &"x".repeat(4096)] {
        let mut link = squatter.accept();
        let line = link.line();
        assert!(line.contains("challenge") && !line.contains(nonce));
        let _ = link.stream().write_all(format!("{answer}\n{frame}\n").as_bytes());
        assert_eq!(link.rest(), "");
    }
    assert!(relay.lost().contains("the handshake's next message was expected"));
    assert!(relay.is_silent_for(Duration::from_millis(100)));

    // The real hub takes the socket back.
    squatter.stop_and_remove(vec![]);
    let hub = state.hub();
    let _link = hub.accept().prove();
    assert_eq!(relay.said(), FromRelay::HubHere);
    assert!(relay.quit(SOON).0.success());
}

#[test]
fn a_token_that_is_missing_short_or_wrong_is_read_again_at_each_attempt() {
    let state = State::new();
    let token = state.path().join(files::TOKEN);
    fs::remove_file(&token).unwrap();
    let hub = state.hub();
    let relay = state.relay();
    assert!(relay.lost().contains("there is no token"));

    state.write_token("another-token-entirely");
    let mut link = hub.accept();
    let challenge = serde_json::from_str(&link.line()).unwrap();
    let secret = consentry_wire::proof::Token::new(TOKEN).unwrap();
    let (_, answer) = consentry_wire::proof::Hub::answer(secret, &challenge, [7; 32]).unwrap();
    link.write(&serde_json::to_string(&answer).unwrap());
    assert_eq!(link.rest(), "");
    assert!(relay.lost().contains("the proof is wrong"));

    state.write_token("short");
    assert!(relay.lost().contains("there is no token"));

    // In the hub's own order: the token, then the socket.
    hub.stop_and_remove(vec![]);
    state.write_token(TOKEN);
    let hub = state.hub();
    let _link = hub.accept().prove();
    assert_eq!(relay.said(), FromRelay::HubHere);
    assert!(relay.quit(SOON).0.success());
}

#[test]
fn a_socket_that_others_may_write_is_not_spoken_to() {
    let state = State::new();
    let hub = state.hub();
    fs::set_permissions(state.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let relay = state.relay();
    assert!(relay.lost().contains("other users may write"));
    assert!(hub.accept_within(Duration::from_millis(300)).is_none());
    fs::set_permissions(state.socket(), fs::Permissions::from_mode(0o600)).unwrap();
    let _link = hub.accept().prove();
    assert_eq!(relay.said(), FromRelay::HubHere);
    assert!(relay.quit(SOON).0.success());
}

#[test]
fn what_a_browser_could_not_mean_is_dropped_and_the_next_frame_passes() {
    let state = State::new();
    let (mut relay, _hub, mut link) = state.linked();
    for bad in ["", "{", "{}\n{}", "\n", "\u{0}", "{\"a\":\"raw\nbreak\"}"] {
        relay.send(bad);
    }
    write_native(relay.input(), b"\"\xff\"").unwrap();
    relay.send(&format!("\"{}\"", "x".repeat(MAX_LINE - 1)));
    relay.send(&format!("\"{}\"", "x".repeat(5 * MAX_LINE)));
    let longest = format!("\"{}\"", "x".repeat(MAX_LINE - 2));
    let writer = thread::spawn({
        let mut input = relay.take_input();
        let longest = longest.clone();
        move || {
            write_native(&mut input, longest.as_bytes()).unwrap();
            write_native(&mut input, b"{\n  \"type\": \"pong\"\r\n}").unwrap();
            input
        }
    });
    assert_eq!(link.line(), longest);
    assert_eq!(link.line(), "{   \"type\": \"pong\"  }");
    drop(writer.join().unwrap());
    let (status, notes) = relay.ended();
    assert!(status.success());
    assert!(notes.contains("not JSON") && notes.contains("over 1048576 bytes"), "{notes}");
}

#[test]
fn what_would_end_the_port_is_dropped_and_the_hubs_next_line_passes() {
    let state = State::new();
    let (relay, _hub, mut link) = state.linked();
    for bad in ["", "{", "{} {}", "nul"] {
        link.write(bad);
    }
    link.stream().write_all(b"\"\xff\"\n").unwrap();
    link.write(&format!("\"{}\"", "x".repeat(MAX_LINE - 1)));
    link.write(&format!("\"{}\"", "x".repeat(5 * MAX_LINE)));
    let longest = format!("\"{}\"", "x".repeat(MAX_LINE - 2));
    link.write(&longest);
    link.write("{\"type\":\"ping\"}\r");
    assert_eq!(relay.frame(), longest);
    assert_eq!(relay.frame(), "{\"type\":\"ping\"} ");
    let (status, notes) = relay.quit(SOON);
    assert!(status.success());
    assert!(notes.contains("not JSON") && notes.contains("over 1048576 bytes"), "{notes}");
}

#[test]
fn it_ends_within_a_second_of_its_browser() {
    let second = Duration::from_secs(1);
    let state = State::new();

    let relay = state.relay();
    relay.lost();
    assert!(relay.quit(second).0.success(), "with no hub");

    let squatter = state.hub();
    let relay = state.relay();
    let _silent = squatter.accept();
    assert!(relay.quit(second).0.success(), "in a handshake that nobody answers");
    squatter.stop_and_remove(vec![]);

    let (relay, hub, mut link) = state.linked();
    assert!(relay.quit(second).0.success(), "with a hub");
    assert_eq!(link.rest(), "");
    hub.stop_and_remove(vec![link]);

    let mut relay = state.relay();
    relay.lost();
    relay.input().write_all(&[9, 0, 0, 0, b'{']).unwrap();
    assert!(relay.quit(second).0.success(), "in the middle of a frame");

    // The hub reads nothing: fill its socket and the pipe, until writing would block.
    let (mut relay, _hub, _link) = state.linked();
    fill(relay.input());
    assert!(relay.quit(second).0.success(), "with a hub that does not read");
}

/// Writes frames until the pipe has taken none for a while.
fn fill(pipe: &mut std::process::ChildStdin) -> usize {
    rustix::io::ioctl_fionbio(&*pipe, true).unwrap();
    let mut frame = format!("\"{}\"", "x".repeat(MAX_PIECE)).into_bytes();
    frame.splice(0..0, (frame.len() as u32).to_ne_bytes());
    let (mut total, mut at, mut moved) = (0, 0, Instant::now());
    while moved.elapsed() < Duration::from_millis(300) {
        match pipe.write(&frame[at..]) {
            Ok(count) => {
                total += count;
                at = (at + count) % frame.len();
                moved = Instant::now();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    total
}

#[test]
fn a_hub_that_does_not_read_is_given_up_and_grows_no_memory() {
    let state = State::new();
    let (mut relay, hub, link) = state.linked();
    let taken = fill(relay.input());
    assert!(taken < 4 * MAX_LINE, "{taken} bytes were taken for a hub that reads nothing");
    assert_small(relay.id());
    assert_eq!(relay.lost(), "consentry does not answer");
    drop(link);
    let _link = hub.accept().prove();
    assert_eq!(relay.said(), FromRelay::HubHere);
    assert!(relay.quit(SOON).0.success());
}

#[test]
fn a_browser_that_does_not_read_stops_the_hub_and_grows_no_memory() {
    let state = State::new();
    let hub = state.hub();
    let mut child = std::process::Command::new(state.program())
        .arg(support::ORIGIN)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let link = hub.accept().prove();
    link.stream().set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let line = format!("\"{}\"\n", "x".repeat(MAX_PIECE));
    let mut sent = 0;
    while let Ok(count) = link.stream().write(line.as_bytes()) {
        sent += count;
        // A cut line begins anew; the relay drops what is no JSON.
        assert!(sent < 64 * MAX_LINE, "the relay takes without end");
    }
    assert!(sent < 4 * MAX_LINE, "{sent} bytes were taken for a browser that reads nothing");
    assert_small(child.id());
    // The browser quits.
    drop(child.stdin.take());
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

/// At most a few megabytes are in use: on Linux at the peak, elsewhere now.
fn assert_small(id: u32) {
    let kilobytes: u64 = if cfg!(target_os = "linux") {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    } else {
        let id = id.to_string();
        let output = std::process::Command::new("ps").args(["-o", "rss=", "-p", &id]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    assert!((1..16 * 1024).contains(&kilobytes), "{kilobytes} kB");
}

#[test]
fn sixty_four_pieces_pass_in_order_both_ways() {
    let state = State::new();
    let (mut relay, _hub, mut link) = state.linked();
    let frame = format!("{{\"type\":\"done\",\"id\":1,\"result\":\"{}\"}}", "é\\\"".repeat(MAX_PIECE * 16));
    let pieces = split(frame.clone());
    assert!(pieces.len() >= 64, "{}", pieces.len());

    let writer = thread::spawn({
        let (mut input, pieces) = (relay.take_input(), pieces.clone());
        move || {
            for piece in &pieces {
                write_native(&mut input, piece.as_bytes()).unwrap();
            }
            input
        }
    });
    assert_eq!(joined(pieces.len(), || link.line()), frame);
    let input = writer.join().unwrap();

    let writer = thread::spawn({
        let pieces = pieces.clone();
        move || {
            for piece in &pieces {
                link.write(piece);
            }
            link
        }
    });
    assert_eq!(joined(pieces.len(), || relay.frame()), frame);
    let _link = writer.join().unwrap();
    assert_small(relay.id());
    drop(input);
    assert!(relay.ended().0.success());
}

fn joined(pieces: usize, mut next: impl FnMut() -> String) -> String {
    let mut joiner = Joiner::default();
    for _ in 1..pieces {
        assert_eq!(joiner.push(next()), Ok(None));
    }
    joiner.push(next()).unwrap().unwrap()
}

#[test]
fn the_last_frame_before_a_browser_quits_arrives() {
    let state = State::new();
    let (mut relay, _hub, mut link) = state.linked();
    relay.send(r#"{"type":"event","event":"disable_all"}"#);
    assert!(relay.quit(SOON).0.success());
    assert_eq!(link.line(), r#"{"type":"event","event":"disable_all"}"#);
    assert_eq!(link.rest(), "");
}

#[test]
fn it_ends_when_the_browser_no_longer_reads() {
    let state = State::new();
    let hub = state.hub();
    let mut child = std::process::Command::new(state.program())
        .arg(support::ORIGIN)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut link = hub.accept().prove();
    drop(child.stdout.take());
    // It may meet the closed pipe with its own word already.
    let _ = link.stream().write_all(b"{\"type\":\"ping\"}\n");
    assert_eq!(link.rest(), "");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_link_to_the_program_serves_the_state_that_it_was_installed_for() {
    let (state, other) = (State::new(), State::new());
    fs::remove_file(other.program()).unwrap();
    std::os::unix::fs::symlink(state.program(), other.program()).unwrap();
    let hub = state.hub();
    let relay = Relay::start(&other.program());
    let _link = hub.accept().prove();
    assert_eq!(relay.said(), FromRelay::HubHere);
    assert!(relay.quit(SOON).0.success());
}

#[test]
fn by_hand_it_says_what_it_is() {
    let state = State::new();
    let output = std::process::Command::new(state.program()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("is started by a browser"));

    let lost = std::process::Command::new(env!("CARGO_BIN_EXE_consentry-native-host"))
        .arg(support::ORIGIN)
        .output()
        .unwrap();
    assert_eq!(lost.status.code(), Some(1));
    assert!(String::from_utf8(lost.stderr).unwrap().contains("lies in no state folder"));
}
