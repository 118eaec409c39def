//! What answers the dialog, and how else it ends.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use consentry_wire::dialog::{DialogAnswer, DialogProbe, DialogSpec};
use x11rb::protocol::randr::{ConnectionExt as _, Rotation, SetConfig};
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, PropMode, ScreenSaver};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use crate::support::attack::{Other, grab_keyboard};
use crate::support::dialog::{Area, Dialog, LIMIT, TEXT, colours, program, root, run, spec};
use crate::support::hand::{Hand, PRIMARY, SECONDARY, WHEEL_DOWN};
use crate::support::xsession::{XSession, XSessionOptions, wait_for};

#[test]
fn a_real_pointers_click_on_each_button_answers() -> anyhow::Result<()> {
    let session = XSession::start()?;
    for id in ["cool_down", "reject", "allow"] {
        Dialog::open(&session, &spec(60))?.answers_to(&session, id)?;
    }
    Ok(())
}

#[test]
fn only_a_whole_click_of_the_primary_button_on_one_button_answers() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let connection = session.connect()?;
    let mut dialog = Dialog::open(&session, &spec(60))?;
    let mut hand = Hand::connect(session.rfb_port())?;
    let (allow, reject) = (dialog.button("allow")?, dialog.button("reject")?);
    hand.move_to(allow.0, allow.1)?;
    dialog.armed(&connection)?;

    hand.press(SECONDARY)?;
    hand.release()?;
    hand.press(PRIMARY)?;
    hand.drag_to(reject.0, reject.1, PRIMARY)?;
    hand.release()?;
    hand.move_to(0, 0)?;
    hand.press(PRIMARY)?;
    hand.drag_to(allow.0, allow.1, PRIMARY)?;
    hand.release()?;
    dialog.says_nothing_for(Duration::from_millis(500))?;
    dialog.is_still_open()?;
    dialog.answers_to(&session, "reject")
}

#[test]
fn the_time_runs_out() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let started = Instant::now();
    let answer = run(program(&session), &spec(2))?;
    assert_eq!(answer, DialogAnswer::TimedOut);
    assert!(started.elapsed() >= Duration::from_secs(2));
    Ok(())
}

#[test]
fn the_end_of_standard_input_withdraws_it() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let mut dialog = Dialog::open(&session, &spec(60))?;
    dialog.withdraw();
    assert_eq!(dialog.closed()?, DialogAnswer::Withdrawn);
    Ok(())
}

#[test]
fn a_lost_display_is_no_answer() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let dialog = Dialog::open(&session, &spec(60))?;
    drop(session);
    let answer = dialog.closed()?;
    assert!(matches!(answer, DialogAnswer::NoDisplay { .. }), "{answer:?}");
    Ok(())
}

#[test]
fn without_a_display_there_is_no_dialog() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let mut command = program(&session);
    command.env_remove("DISPLAY");
    let answer = run(command, &spec(60))?;
    assert!(matches!(answer, DialogAnswer::NoDisplay { .. }), "{answer:?}");
    Ok(())
}

#[test]
fn where_posted_clicks_cannot_be_seen_there_is_no_dialog() -> anyhow::Result<()> {
    for extension in ["RECORD", "XTEST"] {
        let server_arguments = vec!["-extension".to_owned(), extension.to_owned()];
        let session = XSession::start_with(&XSessionOptions { server_arguments, ..Default::default() })?;
        let answer = run(program(&session), &spec(60))?;
        let DialogAnswer::NoDisplay { detail } = answer else { anyhow::bail!("{answer:?}") };
        // Without XTEST there is no RECORD either: X.Org calls both testing extensions.
        assert!(detail.contains("the display has no"), "{detail}");
        let probe = probe(&session)?;
        assert!(!probe.ready, "{probe:?}");
    }
    Ok(())
}

#[test]
fn the_probe_says_that_a_dialog_could_be_shown() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let probe = probe(&session)?;
    assert!(probe.ready && !probe.locked, "{probe:?}");
    assert!(probe.detail.contains("RECORD"), "{probe:?}");
    Ok(())
}

#[test]
fn what_is_no_specification_ends_with_code_2_and_a_message() -> anyhow::Result<()> {
    let session = XSession::start()?;
    for line in ["", "\n", "no JSON\n", "{}\n", "{\"title\":\"cut off"] {
        let mut child = program(&session)
            .arg("show")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        child.stdin.take().context("no standard input")?.write_all(line.as_bytes())?;
        let output = child.wait_with_output()?;
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(output.stdout.is_empty(), "{line:?}");
        assert!(!output.stderr.is_empty(), "{line:?}");
    }
    Ok(())
}

#[test]
fn a_session_that_logind_calls_locked_gets_no_dialog() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let folder = std::env::temp_dir().join(format!("consentry-dialog-loginctl-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let loginctl = folder.join("loginctl");
    let locked = folder.join("locked");
    std::fs::write(&loginctl, format!("#!/bin/sh\n[ -e '{}' ] && echo yes || echo no\n", locked.display()))?;
    std::fs::set_permissions(&loginctl, std::fs::Permissions::from_mode(0o755))?;
    let here = || {
        let mut command = program(&session);
        command.env("PATH", &folder);
        command
    };

    let dialog = Dialog::open_with(&mut here(), &spec(60))?;
    std::fs::write(&locked, "")?;
    assert_eq!(dialog.closed()?, DialogAnswer::ScreenLocked, "locked while it was shown");
    assert_eq!(run(here(), &spec(60))?, DialogAnswer::ScreenLocked, "locked before");
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

#[test]
fn a_window_over_the_whole_screen_that_holds_the_keyboard_is_a_lock() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let connection = session.connect()?;
    let dialog = Dialog::open(&session, &spec(60))?;
    grab_keyboard(&connection)?;
    let locker = Other::overlay(&connection, Area { x: 0, y: 0, w: 1_280, h: 800 })?;
    locker.map()?;
    assert_eq!(dialog.closed()?, DialogAnswer::ScreenLocked);
    Ok(())
}

#[test]
fn the_servers_screen_saver_is_a_lock() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let connection = session.connect()?;
    let dialog = Dialog::open(&session, &spec(60))?;
    connection.force_screen_saver(ScreenSaver::ACTIVE)?.check()?;
    assert_eq!(dialog.closed()?, DialogAnswer::ScreenLocked);
    Ok(())
}

#[test]
fn nothing_is_told_to_accessibility_clients() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let socket = std::env::temp_dir().join(format!("consentry-dialog-bus-{}", std::process::id()));
    let bus = UnixListener::bind(&socket)?;
    bus.set_nonblocking(true)?;
    let address = format!("unix:path={}", socket.display());
    let mut command = program(&session);
    command.env("DBUS_SESSION_BUS_ADDRESS", &address).env("AT_SPI_BUS_ADDRESS", &address);
    let dialog = Dialog::open_with(&mut command, &spec(60))?;
    let connection = session.connect()?;
    dialog.armed(&connection)?;

    let own_socket = std::os::unix::net::UnixStream::connect(&socket).is_ok();
    assert!(own_socket && bus.accept().is_ok(), "the bus can be reached");
    assert!(bus.accept().is_err(), "nobody else came");
    let window = dialog.window(&connection)?;
    for window in [root(&connection)?, window] {
        for atom in connection.list_properties(window)?.reply()?.atoms {
            let name = connection.get_atom_name(atom)?.reply()?.name;
            assert!(!name.starts_with(b"AT_SPI"), "{}", String::from_utf8_lossy(&name));
        }
    }
    std::fs::remove_file(&socket)?;
    dialog.answers_to(&session, "reject")
}

#[test]
fn a_long_script_can_be_read_and_is_allowed_only_after_its_end_was_seen() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let connection = session.connect()?;
    for lines in [4_000, 60] {
        let detail =
            (0..lines).map(|line| format!("echo {line} # a line of a long script\n")).collect::<String>();
        let dialog = Dialog::open(&session, &DialogSpec { detail: Some(detail), ..spec(60) })?;
        let Area { x, y, w, h } = dialog.area();
        let middle = (u16::try_from(x)? + w / 2, u16::try_from(y)? + h / 2);
        let mut hand = Hand::connect(session.rfb_port())?;
        hand.move_to(middle.0, middle.1)?;
        let before = colours(&connection, dialog.area())?;
        for _ in 0..5 {
            hand.wheel(WHEEL_DOWN)?;
        }
        wait_for("the script to scroll", LIMIT, || {
            Ok((colours(&connection, dialog.area())? != before).then_some(()))
        })?;
        let (allow, reject) = (dialog.button("allow")?, dialog.button("reject")?);
        // What denies can be clicked: it is the end of the script alone that what allows waits for.
        let label = Area { x: i16::try_from(reject.0)? - 24, y: i16::try_from(reject.1)? - 8, w: 48, h: 16 };
        wait_for("the dialog to be armed", LIMIT, || {
            Ok(colours(&connection, label)?.contains_key(&TEXT).then_some(()))
        })?;
        if lines == 4_000 {
            hand.click(reject.0, reject.1)?;
            ensure!(dialog.closed()? == DialogAnswer::Button { id: "reject".to_owned() });
            continue;
        }
        hand.click(allow.0, allow.1)?;
        hand.move_to(middle.0, middle.1)?;
        for _ in 0..20 {
            hand.wheel(WHEEL_DOWN)?;
        }
        // It still stands, and takes the click now.
        dialog.answers_to(&session, "allow")?;
    }
    Ok(())
}

#[test]
fn a_dense_screen_gets_a_larger_dialog() -> anyhow::Result<()> {
    let options = XSessionOptions { geometry: (2_560, 1_600), ..Default::default() };
    let session = XSession::start_with(&options)?;
    let width = Dialog::open(&session, &spec(60))?.area().w;
    let connection = session.connect()?;
    connection
        .change_property8(
            PropMode::REPLACE,
            root(&connection)?,
            AtomEnum::RESOURCE_MANAGER,
            AtomEnum::STRING,
            b"Xft.dpi:\t192\n",
        )?
        .check()?;
    let dialog = Dialog::open(&session, &spec(60))?;
    assert_eq!(dialog.area().w, 2 * width);
    dialog.answers_to(&session, "reject")
}

#[test]
fn on_another_screen_size_it_moves_to_the_middle() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let connection = session.connect()?;
    let dialog = Dialog::open(&session, &spec(60))?;
    dialog.armed(&connection)?;
    let before = dialog.area();
    let window = dialog.window(&connection)?;
    resize_screen(&connection, (1_024, 768))?;
    wait_for("the dialog to move", LIMIT, || {
        let place = connection.get_geometry(window)?.reply()?;
        let middle = (1_024 - i16::try_from(before.w)?) / 2;
        Ok((place.x == middle).then_some(()))
    })
}

/// Gives the session's one screen another size.
fn resize_screen(connection: &RustConnection, (width, height): (u16, u16)) -> anyhow::Result<()> {
    let root = root(connection)?;
    let screen = connection.randr_get_screen_resources(root)?.reply()?;
    let mode = screen.modes.iter().find(|mode| (mode.width, mode.height) == (width, height));
    let mode = mode.context("the screen has no such size")?.id;
    let crtc = *screen.crtcs.first().context("the screen has no controller")?;
    let rotation = Rotation::ROTATE0;
    let time = screen.config_timestamp;
    let configure = |mode, outputs: &[u32]| -> anyhow::Result<()> {
        let reply = connection
            .randr_set_crtc_config(crtc, x11rb::CURRENT_TIME, time, 0, 0, mode, rotation, outputs)?
            .reply()?;
        ensure!(reply.status == SetConfig::SUCCESS, "{:?}", reply.status);
        Ok(())
    };
    configure(x11rb::NONE, &[])?;
    connection.randr_set_screen_size(root, width, height, 270, 203)?.check()?;
    configure(mode, &screen.outputs)
}

fn probe(session: &XSession) -> anyhow::Result<DialogProbe> {
    let output = program(session).arg("probe").output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}
