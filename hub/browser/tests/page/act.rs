//! Where to act, and what has the keyboard.

use consentry_browser::page::{
    Caret, Checked, Content, FieldKind, Focus, FocusState, Located, Point, Purpose, TargetBy, Value,
    WhatHasFocus,
};
use serde_json::json;

use crate::harness::{Doc, run};

fn selector(text: &str) -> TargetBy {
    TargetBy::Selector(text.to_owned())
}

impl Doc {
    /// Clicks what the script says and asserts that the page's own listener saw the click on that element.
    async fn click_lands(&self, css: &str) -> anyhow::Result<()> {
        self.page("globalThis.hits = []; document.addEventListener('click', (e) => hits.push(e.composedPath()), true)").await?;
        let target = self.aim(css).await?;
        self.click(&target).await?;
        let hit = format!(
            "hits.length > 0 && hits.every((path) => path.includes(document.querySelector({})))",
            json!(css)
        );
        assert_eq!(self.page(&hit).await?, true, "{css}: {target:?}");
        Ok(())
    }

    async fn focus_state(&self) -> anyhow::Result<FocusState> {
        self.call(&WhatHasFocus { max_chars: 100 }).await
    }
}

#[test]
fn a_point_really_hits_its_element() -> anyhow::Result<()> {
    let html = "<style>body{margin:0} .head{position:sticky;top:0;height:200px;background:#ccc;z-index:1}
          .foot{position:fixed;bottom:0;left:0;right:0;height:150px;background:#ccc}</style>
        <div class=head>Sticky</div><button id=plain>Plain</button>
        <div style='height:3000px'></div><button id=far>Far</button><div style='height:3000px'></div>
        <p style='width:90px'><a id=wrapped href='#x'>a link that wraps over several lines of text</a></p>
        <div style='overflow:auto;height:100px;width:200px'><div style='height:900px'></div><button id=scrolled>In a scroller</button></div>
        <div id=card onclick='1' style='width:300px;height:60px'>Card <button style='width:200px;height:40px'>Inner</button></div>
        <div style='position:relative;width:200px;height:40px'><button id=half style='width:200px;height:40px'>Half</button>
          <div style='position:absolute;left:0;top:0;width:140px;height:40px;background:#ccc'></div></div>
        <span id=contents style='display:contents' role=button>Boxless</span>
        <a id=block href='#y'><div style='height:30px'>Block in a link</div></a>
        <label>Agree <input id=styled type=checkbox style='position:absolute;opacity:0;width:0;height:0'></label>
        <div style='height:1000px'></div><div class=foot>Footer</div>";
    run(async {
        let doc = Doc::open(html).await?;
        for css in
            ["#plain", "#far", "#wrapped", "#scrolled", "#card", "#half", "#contents", "#block", "#far"]
        {
            doc.click_lands(css).await?;
        }
        let styled = doc.aim("#styled").await?;
        doc.click(&styled).await?;
        assert_eq!(doc.page("styled.checked").await?, true);
        Ok(())
    })
}

#[test]
fn what_cannot_be_acted_on_says_why() -> anyhow::Result<()> {
    let html = "<button id=covered style='position:fixed;top:0;left:0'>Covered</button>
        <div id=cover style='position:fixed;inset:0;height:100px' aria-label=Banner></div>
        <fieldset disabled style='margin-top:150px'><button id=off>Off</button></fieldset><button id=aria aria-disabled=true>Aria</button>
        <div inert><button id=inert>Inert</button></div><button id=none style='display:none'>None</button>
        <button id=hidden style='visibility:hidden'>Hidden</button><div id=empty role=button></div>
        <button class=many>One</button><button class=many>Two</button>
        <button class=twin hidden>Mobile</button><button class=twin>Desktop</button>";
    run(async {
        let doc = Doc::open(html).await?;
        let located = doc.locate(selector("#covered"), Purpose::Click).await?;
        let Located::Covered { element, by } = located else { anyhow::bail!("{located:?}") };
        assert_eq!((element.description.name.as_str(), by.description.name.as_str()), ("Covered", "Banner"));
        for css in ["#off", "#aria", "#inert"] {
            let located = doc.locate(selector(css), Purpose::Click).await?;
            assert!(matches!(located, Located::Disabled(_)), "{css}: {located:?}");
        }
        assert!(matches!(doc.locate(selector("#aria"), Purpose::Hover).await?, Located::Ok(_)));
        for css in ["#none", "#hidden", "#empty"] {
            let located = doc.locate(selector(css), Purpose::Click).await?;
            assert!(matches!(located, Located::Invisible(_)), "{css}: {located:?}");
        }
        let located = doc.locate(selector(".many"), Purpose::Click).await?;
        let Located::Ambiguous { count, candidates } = located else { anyhow::bail!("{located:?}") };
        assert_eq!((count, candidates.len(), candidates[1].description.name.as_str()), (2, 2, "Two"));
        assert_eq!(doc.aim(".twin").await?.element.description.name, "Desktop");
        assert!(matches!(doc.locate(selector("a[["), Purpose::Click).await?, Located::BadSelector));
        assert!(matches!(
            doc.locate(selector("#nothing"), Purpose::Click).await?,
            Located::Gone { was: None }
        ));
        Ok(())
    })
}

#[test]
fn a_point_names_what_would_take_the_click() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open("<button style='width:100px;height:50px'><b>Bold</b></button>").await?;
        let target = doc.aim("button").await?;
        let point = Point { x: target.point.x, y: target.point.y };
        let Located::Ok(again) = doc.locate(TargetBy::Point(point), Purpose::Click).await? else {
            anyhow::bail!("nothing there")
        };
        assert_eq!(again.element, target.element);
        assert!(!again.scrolled);
        let nothing = doc.locate(TargetBy::Point(Point { x: -5.0, y: -5.0 }), Purpose::Click).await?;
        assert!(matches!(nothing, Located::Gone { was: None }), "{nothing:?}");
        Ok(())
    })
}

#[test]
fn a_box_is_enough_for_a_look() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open(
            "<div style='height:4000px'></div><img id=i alt=Chart width=80 height=60 src='data:,'>",
        )
        .await?;
        let Located::Ok(target) = doc.locate(selector("#i"), Purpose::Read).await? else {
            anyhow::bail!("not found")
        };
        assert!(
            target.scrolled && target.area.width >= 80.0 && target.area.y >= 0.0 && target.area.y < 900.0,
            "{target:?}"
        );
        Ok(())
    })
}

#[test]
fn guarded_fields_refuse_typing_and_reading() -> anyhow::Result<()> {
    let fields = [
        ("<input type=password value=canary>", "password"),
        ("<input autocomplete='one-time-code' value=canary>", "one-time-code"),
        ("<input autocomplete='shipping CC-Number' value=canary>", "cc-number"),
        ("<textarea autocomplete='new-password'>canary</textarea>", "new-password"),
        ("<input style='-webkit-text-security:disc' value=canary>", "masked"),
    ];
    run(async {
        for (field, reason) in fields {
            let html = format!(
                "<div id=h></div><script>h.attachShadow({{mode: 'open'}}).innerHTML = `{field}`</script>"
            );
            let doc = Doc::open(&html).await?;
            doc.outline().await?;
            let css = selector("input,textarea");
            let typing = doc.locate(css.clone(), Purpose::Type).await?;
            let Located::Guarded { element, guard } = typing else { anyhow::bail!("{field}: {typing:?}") };
            assert_eq!(guard.0, reason);
            assert!(matches!(doc.locate(css, Purpose::Click).await?, Located::Ok(_)));
            let read = doc.call(&Value { reference: element.reference, max_chars: 100 }).await?;
            let Checked::Ok(content) = read else { anyhow::bail!("{read:?}") };
            assert_eq!((content.value, content.length, content.guarded), (None, None, Some(guard.clone())));
            doc.call(&Focus { reference: element.reference, select: Caret::All }).await?;
            let state = doc.focus_state().await?;
            let held = state.content.as_ref().and_then(|content| content.guarded.clone());
            assert_eq!((held, state.selection), (Some(guard), None));
        }
        Ok(())
    })
}

#[test]
fn typing_is_read_back() -> anyhow::Result<()> {
    let html = "<input id=i aria-label=Field value=old><textarea id=t>first</textarea>
        <div id=e contenteditable role=textbox aria-label=Editor><p>one</p><p>two</p></div>
        <div id=h></div><script>h.attachShadow({mode: 'open'}).innerHTML = '<input id=s aria-label=Deep>'</script>
        <select id=c aria-label=Choice><option>A<option selected>B</select><iframe id=f title=Frame srcdoc='<input>'></iframe>";
    run(async {
        let doc = Doc::open(html).await?;
        assert_eq!(doc.focus_state().await?.kind, FieldKind::None);
        let cases = [
            ("#i", Caret::All, "typed", FieldKind::Input),
            ("#t", Caret::End, "firsttyped", FieldKind::Textarea),
            ("#e", Caret::End, "one\ntwotyped", FieldKind::Contenteditable),
            ("#s", Caret::None, "typed", FieldKind::Input),
        ];
        for (css, select, expected, kind) in cases {
            let Located::Ok(target) = doc.locate(selector(css), Purpose::Type).await? else {
                anyhow::bail!("{css}")
            };
            assert!(target.editable);
            let reference = target.element.reference;
            let focused = doc.call(&Focus { reference, select }).await?;
            assert!(matches!(focused, Checked::Ok(taken) if taken.focused), "{css}: {focused:?}");
            doc.cdp("Input.insertText", json!({ "text": "typed" })).await?;
            let state = doc.focus_state().await?;
            assert_eq!((state.kind, state.editable), (kind, true), "{css}");
            assert_eq!(state.element.map(|element| element.reference), Some(reference));
            assert_eq!(state.content.and_then(|content| content.value).as_deref(), Some(expected));
            let read = doc.call(&Value { reference, max_chars: 3 }).await?;
            let Checked::Ok(content) = read else { anyhow::bail!("{read:?}") };
            assert_eq!(
                (content.value.as_deref(), content.length),
                (Some(&expected[..3]), Some(expected.len() as u64))
            );
        }
        let choice = doc.find("Choice").await?;
        let Checked::Ok(Content { selected, .. }) =
            doc.call(&Value { reference: choice, max_chars: 9 }).await?
        else {
            anyhow::bail!("stale")
        };
        assert_eq!(selected, Some(vec!["B".to_owned()]));
        doc.page("f.focus()").await?;
        let state = doc.focus_state().await?;
        assert_eq!((state.kind, state.content), (FieldKind::Frame, None));
        Ok(())
    })
}

#[test]
fn a_row_that_changes_while_it_scrolls_into_view_is_moved() -> anyhow::Result<()> {
    let html = "<div style='height:3000px'></div><ul><li><b id=n>Bob</b> <button>Delete</button></li></ul><div style='height:3000px'></div>
        <script>addEventListener('scroll', () => { n.textContent = 'Carol' }, {once: true})</script>";
    run(async {
        let doc = Doc::open(html).await?;
        let delete = doc.find("Delete").await?;
        let located = doc.locate(TargetBy::Ref(delete), Purpose::Click).await?;
        let Located::Moved { was, now, .. } = located else { anyhow::bail!("{located:?}") };
        assert_eq!((was.context.as_str(), now.description.context.as_str()), ("Bob", "Carol"));
        Ok(())
    })
}
