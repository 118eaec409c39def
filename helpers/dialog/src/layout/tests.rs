use consentry_wire::dialog::{DialogButton, DialogRow};
use proptest::prelude::*;

use super::*;

fn spec() -> DialogSpec {
    let button = |id: &str, label: &str, style| DialogButton {
        id: id.to_owned(),
        label: label.to_owned(),
        style,
        permits: id == "allow",
    };
    DialogSpec {
        title: "Let an agent use your browser?".to_owned(),
        quote: Some("Compare three hotels in Lisbon.".to_owned()),
        rows: vec![DialogRow { label: "Client".to_owned(), value: "claude".to_owned(), unverified: true }],
        detail: None,
        warning: Some("It will move the mouse and type.".to_owned()),
        buttons: vec![
            button("cool_down", "Disallow and cool down", ButtonStyle::Quiet),
            button("reject", "Reject", ButtonStyle::Plain),
            button("allow", "Allow", ButtonStyle::Primary),
        ],
        seconds: 10,
        countdown: "Denied in {} s.".to_owned(),
    }
}

fn place(spec: &DialogSpec, scale: f32, screen: (f32, f32)) -> Layout {
    let theme = Theme::from_environment();
    let texts = [spec.detail.as_deref().unwrap_or_default()];
    let mut typesetter = Typesetter::for_texts(texts);
    Layout::new(spec, &theme, &mut typesetter, scale, screen)
}

fn inside(inner: Rect, layout: &Layout) -> bool {
    inner.x >= 0.0
        && inner.y >= 0.0
        && inner.x + inner.width <= layout.width
        && inner.y + inner.height <= layout.height
}

fn apart(one: Rect, other: Rect) -> bool {
    one.x + one.width <= other.x
        || other.x + other.width <= one.x
        || one.y + one.height <= other.y
        || other.y + other.height <= one.y
}

#[test]
fn buttons_stand_from_the_safest_on_the_left_to_the_most_permissive_on_the_right() {
    let layout = place(&spec(), 1.0, (1_280.0, 800.0));
    let ids: Vec<_> = layout.buttons.iter().map(|button| button.id.as_str()).collect();
    assert_eq!(ids, ["cool_down", "reject", "allow"]);
    assert!(layout.buttons.windows(2).all(|pair| pair[0].rect.x + pair[0].rect.width < pair[1].rect.x));
}

#[test]
fn a_button_is_found_where_it_is_and_nowhere_else() {
    let layout = place(&spec(), 1.0, (1_280.0, 800.0));
    for (index, button) in layout.buttons.iter().enumerate() {
        let (x, y) = button.rect.centre();
        assert_eq!(layout.button_at(x, y), Some(index));
        assert_eq!(layout.button_at(x, button.rect.y - 1.0), None);
    }
}

#[test]
fn the_same_dialog_is_twice_as_large_on_a_dense_screen() {
    let (one, two) = (place(&spec(), 1.0, (1_280.0, 800.0)), place(&spec(), 2.0, (2_560.0, 1_600.0)));
    assert!((two.width / one.width - 2.0).abs() < 0.01);
    assert!((two.height / one.height - 2.0).abs() < 0.1);
}

#[test]
fn a_long_script_scrolls_to_its_last_line() {
    let detail = (1..=5_000).map(|line| format!("echo line {line}\n")).collect::<String>();
    assert!(detail.len() > 70_000);
    let mut layout = place(&DialogSpec { detail: Some(detail), ..spec() }, 1.0, (1_280.0, 800.0));
    let pane = layout.detail.as_mut().unwrap();
    assert!(pane.scroll(f32::MAX));
    assert!((pane.scrolled + pane.area.height - pane.content_height).abs() < 1.0);
    let thumb = pane.thumb(1.0).unwrap();
    assert!((thumb.y + thumb.height - pane.area.y - pane.area.height).abs() < 1.0);
    assert!(!pane.scroll(1.0), "there is nothing further down");
}

#[test]
fn the_detail_shrinks_before_the_facts_do() {
    let detail = Some("line\n".repeat(40));
    let rows = vec![spec().rows[0].clone(); 6];
    let tall =
        place(&DialogSpec { detail: detail.clone(), rows: rows.clone(), ..spec() }, 1.0, (1_280.0, 1_000.0));
    let low = place(&DialogSpec { detail, rows, ..spec() }, 1.0, (1_280.0, 720.0));
    let height = |layout: &Layout| layout.detail.as_ref().unwrap().area.height;
    assert!(height(&low) < height(&tall));
    assert!((low.facts.area.height - low.facts.content_height).abs() < 1.0, "the facts are whole");
}

#[test]
fn the_countdown_names_the_seconds() {
    assert_eq!(countdown("Denied in {} s.", 7), "Denied in 7 s.");
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z ]{0,120}",
        "\\PC{0,60}",
        (1..400_usize).prop_map(|length| "w".repeat(length)),
        Just("https://example.com/".to_owned() + &"path/".repeat(60)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_cuts_the_buttons_off(
        (title, quote, values) in ("[a-z ]{1,80}", words(), prop::collection::vec((words(), words()), 0..12)),
        detail in prop::option::of(words()),
        (scale, width, height) in (prop_oneof![Just(1.0_f32), Just(1.5), Just(2.0)], 360..1_600_u16, 460..1_200_u16),
    ) {
        let rows = values.into_iter().map(|(label, value)| DialogRow { label, value, unverified: true }).collect();
        let spec = DialogSpec { title, quote: Some(quote), rows, detail, ..spec() };
        let screen = (f32::from(width) * scale, f32::from(height) * scale);
        let layout = place(&spec, scale, screen);
        prop_assert!(layout.width <= screen.0 && layout.height <= screen.1);
        for (index, button) in layout.buttons.iter().enumerate() {
            prop_assert!(inside(button.rect, &layout), "{:?} of {} × {}", button.rect, layout.width, layout.height);
            prop_assert!(apart(button.rect, layout.facts.area));
            if let Some(frame) = layout.detail.as_ref().and_then(|pane| pane.frame) {
                prop_assert!(apart(button.rect, frame));
            }
            for other in &layout.buttons[index + 1..] {
                prop_assert!(apart(button.rect, other.rect));
            }
        }
        prop_assert!(inside(layout.bar, &layout));
    }
}
