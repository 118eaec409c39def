use serde_json::json;

use super::*;

const PORTS: HubPorts = HubPorts { mcp: 7311, control: 7312 };

fn label(text: &str) -> GrantLabel {
    text.parse().unwrap()
}

/// A tab on a.test that ABCD holds, whose sites are a.test.
fn held() -> HeldTab {
    let mut held = HeldTab::default();
    held.holders.insert(label("ABCD"));
    commit(&mut held, "M", "L1", "https://a.test/", None);
    context(&mut held, 1, "M", "https://a.test");
    held
}

fn commit(held: &mut HeldTab, frame: &str, loader: &str, url: &str, parent: Option<&str>) -> Verdict {
    let frame = json!({"id": frame, "loaderId": loader, "url": url, "parentId": parent});
    held.event(None, "Page.frameNavigated", &json!({ "frame": frame }), PORTS)
}

fn context(held: &mut HeldTab, id: i64, frame: &str, origin: &str) -> Verdict {
    let event = json!({"context": {"id": id, "uniqueId": format!("u{id}"), "name": "", "origin": origin,
        "auxData": {"isDefault": true, "frameId": frame}}});
    held.event(None, "Runtime.executionContextCreated", &event, PORTS)
}

fn document(frame: &str, loader: &str) -> DocumentId {
    DocumentId { frame: frame.into(), loader: loader.into() }
}

fn decide<T>(who: &str, decide: impl FnOnce(&Scope<'_>) -> T) -> T {
    let covers = |origin: &Origin| origin.host() == "a.test";
    decide(&Scope { label: &label(who), ports: PORTS, covers: &covers })
}

fn send(
    held: &HeldTab,
    session: Option<&str>,
    method: &str,
    params: Value,
    document: Option<&DocumentId>,
) -> Result<Ticket, ErrorCode> {
    let params = params.as_object().cloned().unwrap();
    let request = Request { session, method, params: &params, document };
    decide("ABCD", |scope| held.may_send(scope, &request)).map_err(|failure| failure.code)
}

fn evaluate(held: &HeldTab, context: &str, document: &DocumentId) -> Result<Ticket, ErrorCode> {
    let params = json!({"expression": "1", "uniqueContextId": context, "timeout": 10});
    send(held, None, "Runtime.evaluate", params, Some(document))
}

#[test]
fn a_command_passes_for_the_document_that_its_frame_holds_and_its_answer_only_while_it_does() {
    let mut held = held();
    let here = document("M", "L1");
    let ticket = evaluate(&held, "u1", &here).unwrap();
    assert_eq!(held.may_answer(&label("ABCD"), &ticket), Ok(()));
    assert!(held.may_answer(&label("WXYZ"), &ticket).is_err());
    assert_eq!(evaluate(&held, "u9", &here).unwrap_err(), ErrorCode::DocumentChanged);
    assert_eq!(evaluate(&held, "u1", &document("M", "L0")).unwrap_err(), ErrorCode::DocumentChanged);
    commit(&mut held, "M", "L2", "https://a.test/2", None);
    let late = held.may_answer(&label("ABCD"), &ticket).unwrap_err();
    assert_eq!((late.code, late.outcome), (ErrorCode::DocumentChanged, crate::Outcome::MaybeDone));
    let request = Request { session: None, method: "Page.enable", params: &Map::new(), document: None };
    let stranger = decide("WXYZ", |scope| held.may_send(scope, &request)).unwrap_err();
    assert_eq!(stranger.code, ErrorCode::UnknownTab);
}

/// Typing and clicking reach the whole tab, so a frame of an allowed site in a foreign page is not enough.
#[test]
fn input_and_pictures_want_the_tabs_own_document_covered_too() {
    let mut held = held();
    commit(&mut held, "M", "L2", "https://b.test/", None);
    commit(&mut held, "C", "L3", "https://a.test/", Some("M"));
    context(&mut held, 2, "C", "https://a.test");
    let frame = document("C", "L3");
    assert!(evaluate(&held, "u2", &frame).is_ok());
    let typed = send(&held, None, "Input.insertText", json!({"text": "a"}), Some(&frame));
    assert_eq!(typed.unwrap_err(), ErrorCode::SiteNotAllowed);
    let picture = send(&held, None, "Page.captureScreenshot", json!({}), Some(&frame));
    assert_eq!(picture.unwrap_err(), ErrorCode::SiteNotAllowed);
    let dialog = send(&held, None, "Page.handleJavaScriptDialog", json!({"accept": true}), None);
    assert_eq!(dialog.unwrap_err(), ErrorCode::SiteNotAllowed);
    assert!(!decide("ABCD", |scope| held.top_is_covered(scope)));
}

#[test]
fn a_frame_of_another_process_is_reached_by_its_own_session_as_long_as_that_lives() {
    let mut held = held();
    let attached = json!({"sessionId": "S", "targetInfo": {"type": "iframe", "targetId": "C", "url": ""}});
    let new = held.event(None, "Target.attachedToTarget", &attached, PORTS);
    assert_eq!(new, Verdict::SetUp("S".into()));
    let frame = json!({"id": "C", "loaderId": "L1", "url": "https://a.test/c", "parentId": "M"});
    assert_eq!(held.seed(Some("S"), &json!({"frameTree": {"frame": frame}}), PORTS), Verdict::Pass);
    let metrics = |held: &HeldTab, session| {
        send(held, session, "Page.getLayoutMetrics", json!({}), Some(&document("C", "L1"))).map(drop)
    };
    assert_eq!(metrics(&held, Some("S")), Ok(()));
    assert_eq!(
        metrics(&held, None),
        Err(ErrorCode::DocumentChanged),
        "the tab's own session reaches another"
    );
    assert_eq!(metrics(&held, Some("T")), Err(ErrorCode::DocumentChanged));
    assert_eq!(held.event(Some("T"), "Page.loadEventFired", &json!({}), PORTS), Verdict::Drop);
    let worker = json!({"sessionId": "W", "targetInfo": {"type": "worker", "targetId": "W"}});
    assert_eq!(held.event(None, "Target.attachedToTarget", &worker, PORTS), Verdict::Drop);
    let own = json!({"sessionId": "O", "targetInfo": {"type": "iframe", "targetId": "O", "url": "http://127.0.0.1:7312/"}});
    assert_eq!(held.event(None, "Target.attachedToTarget", &own, PORTS), Verdict::LetGo);
    held.event(None, "Target.detachedFromTarget", &json!({"sessionId": "S"}), PORTS);
    assert!(!held.has_child("S"));
    assert_eq!(metrics(&held, Some("S")), Err(ErrorCode::DocumentChanged));
}

#[test]
fn a_tab_that_goes_where_nobody_may_drive_it_is_let_go_of() {
    for address in ["http://localhost:7312/", "file:///etc/passwd", "chrome://settings/", "data:text/html,x"]
    {
        assert_eq!(commit(&mut held(), "M", "L9", address, None), Verdict::LetGo, "{address}");
    }
    let mut held = held();
    assert_eq!(commit(&mut held, "C", "L1", "http://127.0.0.1:7312/", Some("M")), Verdict::LetGo);
    assert_eq!(commit(&mut held, "D", "L1", "chrome-extension://abc/frame.html", Some("M")), Verdict::Pass);
    // A page that could not be loaded stays held, so that the caller can go elsewhere; nothing covers it.
    let failed = json!({"frame": {"id": "M", "loaderId": "L3", "url": "chrome-error://chromewebdata/",
        "unreachableUrl": "https://a.test/"}});
    assert_eq!(held.event(None, "Page.frameNavigated", &failed, PORTS), Verdict::Pass);
    let typed = send(&held, None, "Input.insertText", json!({"text": "a"}), Some(&document("M", "L3")));
    assert_eq!(typed.unwrap_err(), ErrorCode::ForbiddenPage);
    // The browser names such a tab by the address that it could not show.
    let hub = json!({"frame": {"id": "M", "loaderId": "L4", "url": "chrome-error://chromewebdata/",
        "unreachableUrl": "http://[::1]:7312/"}});
    assert_eq!(held.event(None, "Page.frameNavigated", &hub, PORTS), Verdict::LetGo);
}

/// Browsers give a fresh tab no address before its first page comes.
#[test]
fn a_tab_without_an_address_is_held_and_shows_nothing() {
    for url in ["", ":"] {
        let mut held = held();
        let frame = json!({"id": "M", "loaderId": "L2", "url": url, "securityOrigin": "://"});
        assert_eq!(held.seed(None, &json!({"frameTree": {"frame": frame}}), PORTS), Verdict::Pass);
        let picture = send(&held, None, "Page.captureScreenshot", json!({}), Some(&document("M", "L2")));
        assert_eq!(picture.unwrap_err(), ErrorCode::ForbiddenPage);
    }
}

/// Seen in Chromium 156: attached while the first page of a fresh tab is on its way, it tells of that page's scripts
/// and its load, and never of the page itself.
#[test]
fn a_document_that_no_event_told_of_is_asked_for_and_takes_no_command_before() {
    let mut held = held();
    let here = document("M", "L1");
    assert_eq!(held.event(None, "Runtime.executionContextsCleared", &json!({}), PORTS), Verdict::LookAgain);
    assert_eq!(evaluate(&held, "u1", &here).unwrap_err(), ErrorCode::DocumentChanged);
    let picture = send(&held, None, "Page.captureScreenshot", json!({}), Some(&here));
    assert_eq!(picture.unwrap_err(), ErrorCode::DocumentChanged);
    assert_eq!(context(&mut held, 2, "M", "https://b.test"), Verdict::LookAgain);
    assert_eq!(held.event(None, "Page.loadEventFired", &json!({}), PORTS), Verdict::LookAgain);
    assert_eq!(commit(&mut held, "M", "L2", "https://a.test/2", None), Verdict::Pass);
    assert_eq!(context(&mut held, 3, "M", "https://a.test"), Verdict::Pass);
    assert!(evaluate(&held, "u3", &document("M", "L2")).is_ok());
}

#[test]
fn an_empty_page_belongs_to_whoever_made_it() {
    let mut held = held();
    for (loader, origin, expected) in [
        ("L1", "https://a.test", None),
        ("L2", "https://b.test", Some(ErrorCode::SiteNotAllowed)),
        ("L3", "://", Some(ErrorCode::ForbiddenPage)),
    ] {
        commit(&mut held, "C", loader, "about:srcdoc", Some("M"));
        let world = |held: &HeldTab| {
            let params = json!({"frameId": "C", "worldName": "consentry"});
            send(held, None, "Page.createIsolatedWorld", params, Some(&document("C", loader))).err()
        };
        assert_eq!(world(&held), Some(ErrorCode::ForbiddenPage), "not known yet");
        context(&mut held, 9, "C", origin);
        assert_eq!(world(&held), expected, "{origin}");
    }
    assert_eq!(context(&mut held, 9, "C", "http://localhost:7312"), Verdict::LetGo);
}

#[test]
fn a_list_shows_no_more_than_a_host_of_what_is_not_allowed() {
    for (address, url, title) in [
        ("https://a.test/private?x=1", "https://a.test/private?x=1", "Title"),
        ("https://b.test/private?x=1", "https://b.test", ""),
        ("chrome://settings/passwords", "chrome:", ""),
        ("http://127.0.0.1:7312/secret", "http:", ""),
        ("about:blank", "about:blank", ""),
    ] {
        let shown = decide("ABCD", |scope| scope.show(address, "Title"));
        assert_eq!(shown, (url.to_owned(), title.to_owned()));
    }
}

#[test]
fn tabs_are_touched_only_within_the_sites_and_never_on_a_forbidden_page() {
    let touch = |address: &str, touch| {
        decide("ABCD", |scope| scope.may_touch(address, touch)).err().map(|failure| failure.code)
    };
    assert_eq!(touch("https://a.test/x", Touch::Use), None);
    assert_eq!(touch("https://b.test/x", Touch::Use), Some(ErrorCode::SiteNotAllowed));
    assert_eq!(touch("https://b.test/x", Touch::Move), None);
    assert_eq!(touch("chrome://settings", Touch::Move), Some(ErrorCode::ForbiddenPage));
    assert_eq!(touch("http://127.0.0.1:7312/", Touch::CloseOwn), None);
    let open = |url: &str| decide("ABCD", |scope| scope.may_open(url)).err().map(|failure| failure.code);
    assert_eq!((open("https://a.test/"), open("about:blank")), (None, None));
    assert_eq!(open("https://b.test/"), Some(ErrorCode::SiteNotAllowed));
    assert_eq!(open("javascript:alert(1)"), Some(ErrorCode::ForbiddenPage));
}
