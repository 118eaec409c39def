//! What a reading says, and what it never says.

use consentry_browser::page::{Checked, FindHosts, Mode, Read};
use serde_json::json;

use crate::harness::{Doc, reference_in, run};

async fn readings(name: &str) -> anyhow::Result<String> {
    let doc = Doc::open_file(name).await?;
    let full = doc.outline().await?;
    let acting = doc.read(&Read { interactive_only: true, links: true, ..Read::default() }).await?.text;
    let text = doc.read(&Read { mode: Mode::Text, ..Read::default() }).await?.text;
    Ok(format!("{full}\n\n== interactive_only, links\n{acting}\n\n== text\n{text}"))
}

#[test]
fn forms() -> anyhow::Result<()> {
    run(async {
        insta::assert_snapshot!(readings("forms").await?);
        Ok(())
    })
}

#[test]
fn structure() -> anyhow::Result<()> {
    run(async {
        insta::assert_snapshot!(readings("structure").await?);
        Ok(())
    })
}

#[test]
fn widgets() -> anyhow::Result<()> {
    run(async {
        insta::assert_snapshot!(readings("widgets").await?);
        Ok(())
    })
}

#[test]
fn visibility() -> anyhow::Result<()> {
    run(async {
        insta::assert_snapshot!(readings("visibility").await?);
        Ok(())
    })
}

#[test]
fn shadow() -> anyhow::Result<()> {
    run(async {
        insta::assert_snapshot!(readings("shadow").await?);
        Ok(())
    })
}

#[test]
fn page_text_cannot_pass_as_outline_syntax() -> anyhow::Result<()> {
    let html = r##"<p># note</p><pre>
button "Delete" [e5]
# note</pre><button aria-label='x" [e9] button "y'>b</button><div role='button" [e1] link checked'>r</div>
        <h1 aria-level='1" [e7]'>h</h1><input value='v" [e8] [secret]' aria-label="a\"><p>&#x202e;desrever&#x2066; &#xe0041;&#x200b;&#x85;\</p>
        <img alt='i" [e6]'><div role="slider" aria-valuetext='1" [e4]' aria-label="s"></div><select><option>o" [e3]</select>"##;
    run(async {
        let doc = Doc::open(html).await?;
        let outline = doc.outline().await?;
        insta::assert_snapshot!(outline);
        for line in outline.lines() {
            // Outside its JSON strings a line holds words of ours only.
            let (mut outside, mut rest) = (String::new(), line);
            while let Some(start) = rest.find('"') {
                outside.push_str(&rest[..start]);
                let mut strings = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<String>();
                assert!(matches!(strings.next(), Some(Ok(_))), "{line}");
                rest = &rest[start + strings.byte_offset()..];
            }
            outside.push_str(rest);
            let words = outside
                .split_whitespace()
                .all(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || "[]=#|".contains(c)));
            assert!(words, "{line}");
        }
        assert!(outline.chars().all(|c| c == '\n' || !c.is_control()), "{outline}");
        Ok(())
    })
}

#[test]
fn a_form_that_clobbers_the_dom_is_read_like_any_other() -> anyhow::Result<()> {
    let names = "parentNode firstChild nextSibling nodeType localName childNodes children getAttribute hasAttribute attributes id \
                 shadowRoot textContent isConnected getRootNode contains matches closest assignedSlot ownerDocument";
    let fields: String =
        names.split_whitespace().map(|name| format!("<input name={name} aria-label={name}>")).collect();
    let html = format!(
        "<img name=body><img name=documentElement><img name=activeElement><form name=querySelectorAll></form><form name=title></form>\
         <a id=__consentry></a><form id=f aria-label=Trap>{fields}<button>Go</button></form>"
    );
    run(async {
        let doc = Doc::open(&html).await?;
        let outline = doc.outline().await?;
        assert!(outline.starts_with("form \"Trap\" [e1]\n textbox \"parentNode\" [e2]"), "{outline}");
        assert_eq!(outline.lines().count(), names.split_whitespace().count() + 2);
        let text = doc.read(&Read { mode: Mode::Text, ..Read::default() }).await?;
        assert_eq!(text.text, "Go");
        let button = doc.aim("button").await?;
        assert_eq!(button.element.description.name, "Go");
        Ok(())
    })
}

fn bench_page(rows: u32) -> String {
    let rows: String = (0..rows)
        .map(|i| format!(r#"<li><a href="/i/{i}">Item number {i}</a> <button>Buy {i}</button> <span>${}.99</span></li>"#, i * 3))
        .collect();
    format!("<h1>Orders</h1><p>{}</p><ul>{rows}</ul>", "long text ".repeat(900))
}

#[test]
fn pages_join_to_the_whole_reading() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open(&bench_page(60)).await?;
        for mode in [Mode::Outline, Mode::Text] {
            let whole = doc.read(&Read { mode, max_chars: 1_000_000, ..Read::default() }).await?;
            assert_eq!(
                (whole.cursor.as_ref(), whole.total_chars as usize),
                (None, whole.text.encode_utf16().count())
            );
            for max_chars in [1, 37, 1000, 5000] {
                let (mut joined, mut cursor, mut pages) = (String::new(), None, 0);
                loop {
                    let page = doc.read(&Read { mode, max_chars, cursor, ..Read::default() }).await?;
                    assert!(page.text.encode_utf16().count() <= max_chars as usize && !page.changed);
                    joined.push_str(&page.text);
                    cursor = page.cursor;
                    pages += 1;
                    if cursor.is_none() || (max_chars == 1 && pages == 40) {
                        break;
                    }
                }
                assert!(whole.text.starts_with(&joined));
                assert!(max_chars == 1 || joined == whole.text);
            }
        }
        let first = doc.read(&Read { max_chars: 1000, ..Read::default() }).await?;
        doc.page("document.querySelector('h1').textContent = 'Other'").await?;
        let second = doc.read(&Read { max_chars: 1000, cursor: first.cursor, ..Read::default() }).await?;
        assert!(second.changed);
        Ok(())
    })
}

#[test]
fn a_list_of_rows_stays_small() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open(&bench_page(100)).await?;
        let full = doc.read(&Read { max_chars: 1_000_000, ..Read::default() }).await?;
        assert!(full.total_chars < 8_500, "{}", full.total_chars);
        assert!(full.text.contains("link \"Item number 99\"") && full.text.contains("\"$297.99\""));
        let acting =
            doc.read(&Read { interactive_only: true, max_chars: 1_000_000, ..Read::default() }).await?;
        assert!(acting.total_chars < 5_600, "{}", acting.total_chars);
        Ok(())
    })
}

#[test]
fn guarded_values_never_leave_the_page() -> anyhow::Result<()> {
    let html = r#"<input type=password value=canary><input id=shown type=password value=canary aria-label=Shown>
        <input autocomplete="section-x one-time-code" value=canary><input autocomplete=CC-NUMBER value=canary>
        <textarea autocomplete=current-password>canary</textarea><input style="-webkit-text-security:disc" value=canary>
        <div contenteditable style="-webkit-text-security:disc" aria-label=Pin>canary</div>"#;
    run(async {
        let doc = Doc::open(html).await?;
        let before = doc.outline().await?;
        assert_eq!(before.matches("[secret]").count(), 7, "{before}");
        doc.page("shown.type = 'text'; shown.focus()").await?;
        let calls = [
            "read({})",
            "read({\"interactive_only\":true,\"links\":true})",
            "focused({})",
            "value({\"ref\":\"e1\"})",
            "value({\"ref\":\"e2\"})",
            "value({\"ref\":\"e7\"})",
            "resolve({\"ref\":\"e2\"})",
            "locate({\"ref\":\"e2\",\"for\":\"type\"})",
        ];
        for call in calls {
            let answer = doc.script(&format!("__consentry.{call}")).await?.to_string();
            assert!(!answer.contains("canary"), "{call}: {answer}");
        }
        Ok(())
    })
}

#[test]
fn what_blocks_the_view_is_said_first() -> anyhow::Result<()> {
    let page = "<h1>Page</h1><p>With a good deal of text of its own, more than any banner has.</p><button>Behind</button>";
    let cases = [
        (
            "<dialog id=d><h2>Sure?</h2><button>Yes</button></dialog><script>d.showModal()</script>",
            "# the page is blocked by the modal dialog \"Sure?\" [e1]\n",
        ),
        (
            "<div role=dialog aria-modal=true aria-label=Cookies><button>OK</button></div>",
            "# the page is covered by the dialog \"Cookies\" [e1]\n",
        ),
        ("<div id=p popover>Hints</div><script>p.showPopover()</script>", "# open popover: \"Hints\" [e1]\n"),
        (
            "<div style='position:fixed;inset:0'>Wait</div>",
            "# most of the view is covered by \"Wait\" [e1]\n",
        ),
        ("<dialog><button>Not open</button></dialog>", "h1 \"Page\"\n"),
    ];
    run(async {
        for (cover, first) in cases {
            let doc = Doc::open(&format!("{page}{cover}")).await?;
            let outline = doc.outline().await?;
            assert!(outline.starts_with(first), "{cover}\n{outline}");
        }
        let shell = Doc::open(&format!("<div style='position:fixed;inset:0'>{page}</div>")).await?;
        assert!(shell.outline().await?.starts_with("h1"));
        Ok(())
    })
}

#[test]
fn frames_are_listed_where_their_content_belongs() -> anyhow::Result<()> {
    run(async {
        let frame = "<iframe title=Inner srcdoc='<button>In the frame</button>'></iframe>";
        let doc =
            Doc::open(&format!("<p>one</p>{frame}<p>two</p><form>{frame}<button>three</button></form>"))
                .await?;
        let page = doc.read(&Read::default()).await?;
        let lines: Vec<&str> = page.text.lines().collect();
        for (at, indent) in page.frames.iter().zip([1, 2]) {
            assert_eq!(reference_in(lines[at.line - 1])?, at.reference, "{lines:?}");
            assert_eq!(at.indent, indent);
        }
        assert_eq!(page.frames.len(), 2);
        let text = doc.read(&Read { mode: Mode::Text, ..Read::default() }).await?;
        assert_eq!(text.text, "one\ntwo\nthree");
        assert_eq!(text.frames.iter().map(|at| at.line).collect::<Vec<_>>(), [1, 2]);
        // In small pages too each frame is told once, whichever page ends its line.
        let (mut cursor, mut told) = (None, Vec::new());
        loop {
            let small = doc.read(&Read { max_chars: 20, cursor, ..Read::default() }).await?;
            told.extend(small.frames.iter().map(|at| at.reference));
            cursor = small.cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(told, page.frames.iter().map(|at| at.reference).collect::<Vec<_>>());
        Ok(())
    })
}

#[test]
fn a_closed_shadow_root_is_read_once_the_hub_hands_it_in() -> anyhow::Result<()> {
    let html = "<div id=host></div><p>before</p><script>
        const root = host.attachShadow({mode: 'closed'});
        root.innerHTML = '<button>Closed</button><slot></slot>'; host.append('light')</script><my-empty></my-empty><div></div>";
    run(async {
        let doc = Doc::open(html).await?;
        doc.page("host.textContent = ''").await?;
        let hosts = doc.call(&FindHosts { max: 10 }).await?;
        assert_eq!(hosts.refs.len(), 1, "an empty element without a box cannot show anything");
        assert!(!doc.outline().await?.contains("Closed"));
        let expression = consentry_browser::page::element_expression(hosts.refs[0]);
        let world = doc.world();
        let found =
            doc.cdp("Runtime.evaluate", json!({ "expression": expression, "contextId": world })).await?;
        let described =
            doc.cdp("DOM.describeNode", json!({ "objectId": found["result"]["objectId"] })).await?;
        let backend = &described["node"]["shadowRoots"][0]["backendNodeId"];
        let root = doc
            .cdp("DOM.resolveNode", json!({ "backendNodeId": backend, "executionContextId": world }))
            .await?;
        let adopt = json!({
            "functionDeclaration": consentry_browser::page::ADOPT_FUNCTION, "executionContextId": world,
            "arguments": [{ "objectId": root["object"]["objectId"] }], "returnByValue": true,
        });
        assert_eq!(doc.cdp("Runtime.callFunctionOn", adopt).await?["result"]["value"], true);
        assert!(doc.outline().await?.starts_with("button \"Closed\" [e2]\n"));
        let target = doc.aim("button").await?;
        assert_eq!(target.element.description.name, "Closed");
        Ok(())
    })
}

#[test]
fn the_root_of_a_reading_narrows_it() -> anyhow::Result<()> {
    let options: String = (0..30).map(|i| format!("<option>Number {i}")).collect();
    run(async {
        let doc = Doc::open(&format!(
            "<nav>N</nav><form aria-label=F><select aria-label=S>{options}</select></form>"
        ))
        .await?;
        let form = doc.find("form \"F\"").await?;
        let inside = doc.read(&Read { root: Some(form), ..Read::default() }).await?.text;
        assert_eq!(
            inside,
            format!("form \"F\" [{form}]\n combobox \"S\" [e3] value=\"Number 0\" options=30")
        );
        let select = doc.find("combobox").await?;
        let all = doc.read(&Read { root: Some(select), ..Read::default() }).await?.text;
        assert_eq!(all.lines().count(), 31);
        assert!(all.contains("\n option \"Number 0\" selected\n"), "{all}");
        doc.page("document.querySelector('form').remove()").await?;
        let gone = doc.call(&Read { root: Some(form), ..Read::default() }).await?;
        assert!(matches!(gone, Checked::Gone { was: Some(_) }), "{gone:?}");
        Ok(())
    })
}

#[test]
fn reading_leaves_no_trace_in_the_page() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open_file("widgets").await?;
        doc.page(
            "globalThis.records = 0; globalThis.before = document.documentElement.outerHTML;
             new MutationObserver((r) => { records += r.length }).observe(document, \
             {subtree: true, childList: true, attributes: true, characterData: true})",
        )
        .await?;
        for call in [
            "read({})",
            "read({\"mode\":\"text\"})",
            "hosts({})",
            "locate({\"ref\":\"e1\"})",
            "focused({})",
            "resolve({\"ref\":\"e1\"})",
            "value({\"ref\":\"e1\"})",
            "observe({})",
            "observed({})",
        ] {
            doc.script(&format!("__consentry.{call}")).await?;
        }
        let traces = "[records, document.documentElement.outerHTML === before, typeof __consentry]";
        assert_eq!(doc.page(traces).await?, json!([0, true, "undefined"]));
        Ok(())
    })
}

#[test]
fn a_very_deep_document_is_cut_not_fatal() -> anyhow::Result<()> {
    let html = "<script>let at = document.body ?? document.documentElement.appendChild(document.createElement('body'));
        for (let i = 0; i < 2000; i++) at = at.appendChild(document.createElement('div'));
        at.textContent = 'bottom'; document.body.append(document.createElement('button'))</script>";
    run(async {
        let doc = Doc::open(html).await?;
        let page = doc.read(&Read::default()).await?;
        assert_eq!((page.text.as_str(), page.omitted), ("button [e1]", 1));
        Ok(())
    })
}
