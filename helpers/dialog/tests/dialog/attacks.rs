//! No key and no program answers: each attack is shown to arrive, and each is followed by a real click that
//! answers, so that none is refused only because nothing works.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use consentry_wire::dialog::{DialogAnswer, IgnoredClick};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::composite::{ConnectionExt as _, Redirect};
use x11rb::protocol::shape::{ConnectionExt as _, SK, SO};
use x11rb::protocol::xproto::{
    ClipOrdering, ConfigureWindowAux, ConnectionExt as _, EventMask, InputFocus, MapState, Rectangle,
    StackMode,
};
use x11rb::rust_connection::RustConnection;

use crate::support::attack::{
    Other, SecondMaster, draw_on, fake_click, fake_device_click, fake_motion, grab_keyboard, grab_pointer,
    move_window, real_pointer, send_click,
};
use crate::support::dialog::{Area, Dialog, LIMIT, root, spec};
use crate::support::hand::Hand;
use crate::support::xsession::{XSession, wait_for};

/// A dialog that a click would answer now, the real pointer on its permitting button.
struct Scene {
    session: XSession,
    connection: RustConnection,
    dialog: Dialog,
    hand: Hand,
    allow: (u16, u16),
}

impl Scene {
    fn armed() -> anyhow::Result<Self> {
        let session = XSession::start()?;
        let connection = session.connect()?;
        let dialog = Dialog::open(&session, &spec(60))?;
        let mut hand = Hand::connect(session.rfb_port())?;
        let allow = dialog.button("allow")?;
        hand.move_to(allow.0, allow.1)?;
        dialog.armed(&connection)?;
        Ok(Self { session, connection, dialog, hand, allow })
    }

    fn window(&self) -> anyhow::Result<u32> {
        self.dialog.window(&self.connection)
    }

    fn real_click(&mut self) -> anyhow::Result<()> {
        Ok(self.hand.click(self.allow.0, self.allow.1)?)
    }

    /// The dialog stands where it was put, in its own shape and on top.
    fn stands_again(&self) -> anyhow::Result<()> {
        self.dialog.armed(&self.connection)?;
        self.window().map(drop)
    }

    fn still_answers(self) -> anyhow::Result<()> {
        self.dialog.answers_to(&self.session, "reject")
    }
}

/// Presses a key as the owner's keyboard would not: by XTEST.
fn key(session: &XSession, name: &str) -> anyhow::Result<()> {
    let status = session
        .command("xdotool")
        .args(["key", name])
        .status()
        .context("cannot start xdotool: install it with `apt-get install xdotool`")?;
    ensure!(status.success(), "xdotool key {name}: {status}");
    Ok(())
}

#[test]
fn no_key_changes_anything() -> anyhow::Result<()> {
    let mut scene = Scene::armed()?;
    let other = Other::focused(&scene.connection)?;
    let keys = ["Return", "KP_Enter", "Escape", "space", "Tab", "a", "y", "n", "Left", "F10"];
    for name in keys {
        key(&scene.session, name)?;
        other.event(&format!("the key {name}"), |event| matches!(event, Event::KeyPress(_)).then_some(()))?;
    }
    // The window manager takes this one, and closes the window that has the focus.
    key(&scene.session, "alt+F4")?;
    other.event("alt+F4", |event| matches!(event, Event::ClientMessage(_)).then_some(()))?;
    scene.dialog.is_still_open()?;
    drop(other);

    let window = scene.window()?;
    let connection = scene.session.connect()?;
    let selected = connection.get_window_attributes(window)?.reply()?.all_event_masks;
    ensure!(!selected.intersects(EventMask::KEY_PRESS | EventMask::KEY_RELEASE), "{selected:?}");
    connection.set_input_focus(InputFocus::PARENT, window, x11rb::CURRENT_TIME)?.check()?;
    ensure!(connection.get_input_focus()?.reply()?.focus == window, "the dialog has the focus");
    for name in keys.into_iter().chain(["alt+F4"]) {
        key(&scene.session, name)?;
    }
    scene.dialog.says_nothing_for(Duration::from_millis(300))?;
    scene.dialog.is_still_open()?;
    scene.still_answers()
}

#[test]
fn xdotool_is_refused() -> anyhow::Result<()> {
    let scene = Scene::armed()?;
    let (x, y) = (scene.allow.0.to_string(), scene.allow.1.to_string());
    let status = scene
        .session
        .command("xdotool")
        .args(["mousemove", &x, &y, "click", "1"])
        .status()
        .context("cannot start xdotool: install it with `apt-get install xdotool`")?;
    ensure!(status.success());
    assert_eq!(scene.dialog.ignored()?, IgnoredClick::SyntheticDevice);
    scene.dialog.says_nothing_for(Duration::from_millis(300))?;
    scene.still_answers()
}

#[test]
fn a_second_master_pointer_is_refused() -> anyhow::Result<()> {
    let scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    let second = SecondMaster::add(&attacker)?;
    fake_motion(&attacker, scene.allow.0, scene.allow.1)?;
    fake_click(&attacker)?;
    assert_eq!(scene.dialog.ignored()?, IgnoredClick::SyntheticDevice);
    scene.dialog.says_nothing_for(Duration::from_millis(300))?;
    drop(second);
    scene.still_answers()
}

#[test]
fn a_click_posted_on_the_real_device_is_refused() -> anyhow::Result<()> {
    let scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    fake_device_click(&attacker, real_pointer(&attacker)?, 0)?;
    assert_eq!(scene.dialog.ignored()?, IgnoredClick::PostedNearby);
    scene.still_answers()
}

#[test]
fn a_click_posted_with_a_delay_is_refused() -> anyhow::Result<()> {
    let scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    fake_device_click(&attacker, real_pointer(&attacker)?, 400)?;
    assert_eq!(scene.dialog.ignored()?, IgnoredClick::PostedNearby);
    scene.still_answers()
}

#[test]
fn a_real_click_beside_a_posted_one_is_refused() -> anyhow::Result<()> {
    let mut scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    scene.real_click()?;
    fake_device_click(&attacker, real_pointer(&attacker)?, 0)?;
    assert_eq!(scene.dialog.ignored()?, IgnoredClick::PostedNearby);
    scene.still_answers()
}

#[test]
fn a_pointer_that_a_program_put_on_the_button_is_refused() -> anyhow::Result<()> {
    let mut scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    let (x, y) = (i16::try_from(scene.allow.0)?, i16::try_from(scene.allow.1)?);
    attacker.warp_pointer(x11rb::NONE, root(&attacker)?, 0, 0, 0, 0, x, y)?.check()?;
    scene.real_click()?;
    assert_eq!(scene.dialog.ignored()?, IgnoredClick::PostedNearby);
    scene.still_answers()
}

#[test]
fn a_sent_event_is_refused() -> anyhow::Result<()> {
    let scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    let Area { x, y, .. } = scene.dialog.area();
    let (across, down) = (i16::try_from(scene.allow.0)? - x, i16::try_from(scene.allow.1)? - y);
    send_click(&attacker, scene.window()?, across, down)?;
    assert_eq!(scene.dialog.ignored()?, IgnoredClick::SyntheticDevice);
    scene.still_answers()
}

#[test]
fn a_click_within_700_ms_of_appearing_is_refused() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let mut hand = Hand::connect(session.rfb_port())?;
    let dialog = Dialog::open(&session, &spec(60))?;
    let (x, y) = dialog.button("allow")?;
    hand.click(x, y)?;
    assert_eq!(dialog.ignored()?, IgnoredClick::NotSettled);
    dialog.answers_to(&session, "reject")
}

#[test]
fn a_moved_window_goes_back_and_takes_no_click_for_700_ms() -> anyhow::Result<()> {
    let mut scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    let window = scene.window()?;
    // So that another button comes under the pointer.
    let (reject, allow) = (scene.dialog.button("reject")?, scene.allow);
    let Area { x, y, .. } = scene.dialog.area();
    move_window(&attacker, window, i32::from(x) + i32::from(allow.0) - i32::from(reject.0), y.into())?;
    wait_for("the dialog to go back", LIMIT, || {
        let place = attacker.get_geometry(window)?.reply()?;
        Ok(((place.x, place.y) == (x, y)).then_some(()))
    })?;
    scene.real_click()?;
    assert_eq!(scene.dialog.ignored()?, IgnoredClick::NotSettled);
    scene.still_answers()
}

#[test]
fn a_window_over_it_goes_below_and_restarts_the_700_ms() -> anyhow::Result<()> {
    let mut scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    let overlay = Other::overlay(&attacker, scene.dialog.area())?;
    overlay.map()?;
    overlay.event("the overlay to appear", |event| matches!(event, Event::MapNotify(_)).then_some(()))?;
    let window = scene.window()?;
    wait_for("the dialog to be on top", LIMIT, || {
        let tree = attacker.query_tree(root(&attacker)?)?.reply()?.children;
        let place = |of| tree.iter().position(|&child| child == of);
        Ok((place(window) > place(overlay.window)).then_some(()))
    })?;
    scene.real_click()?;
    assert_eq!(scene.dialog.ignored()?, IgnoredClick::NotSettled);
    scene.still_answers()
}

#[test]
fn a_window_that_lets_clicks_through_under_a_compositor_is_seen() -> anyhow::Result<()> {
    let mut scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    // What a compositor does; from then on no window is ever told that it is covered.
    attacker.composite_query_version(0, 4)?.reply()?;
    attacker.composite_redirect_subwindows(root(&attacker)?, Redirect::AUTOMATIC)?.check()?;
    let overlay = Other::overlay(&attacker, scene.dialog.area())?;
    attacker
        .shape_rectangles(SO::SET, SK::INPUT, ClipOrdering::UNSORTED, overlay.window, 0, 0, &[])?
        .check()?;
    scene.stands_again()?;
    overlay.map()?;
    overlay.event("the overlay to appear", |event| matches!(event, Event::MapNotify(_)).then_some(()))?;
    scene.real_click()?;
    assert_eq!(scene.dialog.ignored()?, IgnoredClick::NotSettled);
    scene.still_answers()
}

#[test]
fn what_somebody_draws_on_it_is_seen_and_painted_over() -> anyhow::Result<()> {
    'places: for on_the_screen in [false, true] {
        for _ in 0..5 {
            let mut scene = Scene::armed()?;
            let attacker = scene.session.connect()?;
            let Area { x, y, .. } = scene.dialog.area();
            let (drawable, x, y) =
                if on_the_screen { (root(&attacker)?, x, y) } else { (scene.window()?, 0, 0) };
            let began = Instant::now();
            draw_on(&attacker, drawable, Area { x: x + 60, y: y + 60, w: 200, h: 30 })?;
            scene.real_click()?;
            // On a machine that was busy for so long it may have been painted over and have stood since.
            if began.elapsed() > Duration::from_millis(500) {
                continue;
            }
            assert_eq!(scene.dialog.ignored()?, IgnoredClick::NotSettled);
            scene.stands_again()?;
            scene.still_answers()?;
            continue 'places;
        }
        anyhow::bail!("no click came within half a second of the drawing");
    }
    Ok(())
}

#[test]
fn another_shape_is_undone() -> anyhow::Result<()> {
    for kind in [SK::BOUNDING, SK::CLIP, SK::INPUT] {
        let scene = Scene::armed()?;
        let attacker = scene.session.connect()?;
        let window = scene.window()?;
        let corner = Rectangle { x: 0, y: 0, width: 30, height: 30 };
        let order = ClipOrdering::UNSORTED;
        attacker.shape_rectangles(SO::SET, kind, order, window, 0, 0, &[corner])?.check()?;
        let Area { w, h, .. } = scene.dialog.area();
        wait_for("the shape to be undone", LIMIT, || {
            let rectangles = attacker.shape_get_rectangles(window, kind)?.reply()?.rectangles;
            let whole = rectangles.len() == 1 && (rectangles[0].width, rectangles[0].height) == (w, h);
            Ok(whole.then_some(()))
        })?;
        scene.stands_again()?;
        scene.still_answers()?;
    }
    Ok(())
}

#[test]
fn taken_off_the_screen_it_comes_back_and_at_last_gives_up() -> anyhow::Result<()> {
    let scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    let window = scene.window()?;
    attacker.unmap_window(window)?.check()?;
    wait_for("the dialog to come back", LIMIT, || {
        let state = attacker.get_window_attributes(window)?.reply()?.map_state;
        Ok((state == MapState::VIEWABLE).then_some(()))
    })?;
    scene.stands_again()?;
    wait_for("the dialog to give up", LIMIT, || {
        let Ok(attributes) = attacker.get_window_attributes(window)?.reply() else { return Ok(Some(())) };
        if attributes.map_state == MapState::VIEWABLE {
            attacker.unmap_window(window)?.ignore_error();
            attacker.flush()?;
        }
        Ok(None)
    })?;
    assert_eq!(scene.dialog.closed()?, DialogAnswer::Withdrawn);
    Ok(())
}

#[test]
fn put_into_another_window_it_comes_out_again() -> anyhow::Result<()> {
    let scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    let window = scene.window()?;
    let trap = Other::overlay(&attacker, Area { x: 0, y: 0, w: 100, h: 100 })?;
    attacker.reparent_window(window, trap.window, 0, 0)?.check()?;
    wait_for("the dialog to come out", LIMIT, || {
        let parent = attacker.query_tree(window)?.reply()?.parent;
        Ok((parent == root(&attacker)?).then_some(()))
    })?;
    scene.stands_again()?;
    scene.still_answers()
}

#[test]
fn a_destroyed_window_is_a_withdrawal() -> anyhow::Result<()> {
    let scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    attacker.destroy_window(scene.window()?)?.check()?;
    assert_eq!(scene.dialog.closed()?, DialogAnswer::Withdrawn);
    Ok(())
}

#[test]
fn a_killed_connection_is_no_answer() -> anyhow::Result<()> {
    let scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    attacker.kill_client(scene.window()?)?.check()?;
    let answer = scene.dialog.closed()?;
    assert!(matches!(answer, DialogAnswer::NoDisplay { .. } | DialogAnswer::Withdrawn), "{answer:?}");
    Ok(())
}

#[test]
fn a_grab_of_the_keyboard_does_not_matter() -> anyhow::Result<()> {
    let scene = Scene::armed()?;
    let attacker = scene.session.connect()?;
    grab_keyboard(&attacker)?;
    scene.still_answers()
}

#[test]
fn silence_under_a_grab_of_the_pointer_is_not_the_owners() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let attacker = session.connect()?;
    let dialog = Dialog::open(&session, &spec(3))?;
    grab_pointer(&attacker)?;
    assert_eq!(dialog.closed()?, DialogAnswer::Withdrawn);
    Ok(())
}

#[test]
fn silence_while_a_program_disturbs_the_dialog_is_not_the_owners() -> anyhow::Result<()> {
    let session = XSession::start()?;
    let attacker = session.connect()?;
    let dialog = Dialog::open(&session, &spec(3))?;
    let window = dialog.window(&attacker)?;
    let lowered = ConfigureWindowAux::new().x(0).stack_mode(StackMode::BELOW);
    wait_for("the dialog to end", LIMIT, || {
        let gone = attacker.configure_window(window, &lowered)?.check().is_err();
        Ok(gone.then_some(()))
    })?;
    assert_eq!(dialog.closed()?, DialogAnswer::Withdrawn);
    Ok(())
}
