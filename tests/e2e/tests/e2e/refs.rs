//! Refs and fields: a stale ref is moved, replaced or gone, and never another element; some fields take nothing.

use anyhow::ensure;
use consentry_test_support::scene::{Grant, ref_of};
use serde_json::{Value, json};

use crate::stage::{HEADLESS, Set, Test, refused, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![HEADLESS;
        a_ref_of_rows_that_were_rendered_anew_is_replaced_and_clicks_nothing,
        a_ref_of_a_row_that_is_about_something_else_now_is_moved_and_clicks_nothing,
        a_ref_of_a_row_that_was_removed_is_gone_and_clicks_nothing,
        a_ref_of_a_row_that_only_changed_its_place_still_means_that_row,
        a_ref_does_not_outlive_its_document,
        guarded_fields_take_nothing,
        a_newline_is_a_real_enter,
        what_cannot_be_clicked_says_why,
    ]
}

const ROWS: &str = r#"<title>Rows</title><ul id=rows></ul><script>
let names = ['Ada', 'Bob', 'Cleo'];
window.clicked = [];
const row = name => `<li>${name} <button onclick="clicked.push('${name}')">Delete ${name}</button></li>`;
function render() { rows.innerHTML = names.map(row).join(''); }
render();
</script>"#;

async fn rows(set: &Set) -> anyhow::Result<(Grant, String, String)> {
    let url = set.pages.put("/rows", ROWS);
    let grant = set.grant("Delete a row.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    let outline = grant.read(&tab).await?;
    let bob = ref_of(&outline, "button \"Delete Bob\"")?;
    Ok((grant, tab, bob))
}

async fn script(grant: &Grant, tab: &str, script: &str) -> anyhow::Result<String> {
    Ok(grant.does("evaluate_script", json!({ "tab": tab, "expression": script })).await?.text)
}

/// The ref is refused in this way, and nothing was clicked.
async fn stale(grant: &Grant, tab: &str, reference: &str, how: &str) -> anyhow::Result<()> {
    for (tool, arguments) in [
        ("click_element", json!({ "tab": tab, "ref": reference })),
        ("type_text", json!({ "tab": tab, "ref": reference, "text": "x" })),
    ] {
        let answer = refused(grant.call(tool, arguments).await, "stale_ref")?;
        ensure!(answer.field("message").starts_with(how), "{tool}: expected {how}: {}", answer.raw);
    }
    let clicked = script(grant, tab, "JSON.stringify(clicked)").await?;
    ensure!(clicked.contains("[]"), "something was clicked: {clicked}");
    Ok(())
}

async fn a_ref_of_rows_that_were_rendered_anew_is_replaced_and_clicks_nothing(
    set: &mut Set,
) -> anyhow::Result<()> {
    let (grant, tab, bob) = rows(set).await?;
    script(&grant, &tab, "render()").await?;
    stale(&grant, &tab, &bob, "replaced").await?;
    // The answer names the one that looks the same, which then works.
    let answer = grant.call("click_element", json!({ "tab": tab, "ref": bob })).await?;
    let named = answer.field("next").split_whitespace().nth(1).unwrap_or_default().to_owned();
    grant.does("click_element", json!({ "tab": tab, "ref": named })).await?;
    ensure!(script(&grant, &tab, "clicked.join()").await?.contains("Bob"));
    Ok(())
}

async fn a_ref_of_a_row_that_is_about_something_else_now_is_moved_and_clicks_nothing(
    set: &mut Set,
) -> anyhow::Result<()> {
    let (grant, tab, bob) = rows(set).await?;
    // As frameworks do that reuse nodes by their place: the same button, about somebody else.
    let reuse = "(() => { const button = rows.children[1].querySelector('button'); button.textContent = 'Delete Cleo';
        button.onclick = () => clicked.push('Cleo'); rows.children[1].firstChild.data = 'Cleo '; rows.children[2].remove(); return 1 })()";
    script(&grant, &tab, reuse).await?;
    stale(&grant, &tab, &bob, "moved").await
}

async fn a_ref_of_a_row_that_was_removed_is_gone_and_clicks_nothing(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab, bob) = rows(set).await?;
    script(&grant, &tab, "(names = ['Ada', 'Cleo'], render(), 1)").await?;
    stale(&grant, &tab, &bob, "gone").await
}

async fn a_ref_of_a_row_that_only_changed_its_place_still_means_that_row(
    set: &mut Set,
) -> anyhow::Result<()> {
    let (grant, tab, bob) = rows(set).await?;
    script(&grant, &tab, "(rows.append(rows.children[1]), rows.children[2].textContent)").await?;
    let answer = grant.call("click_element", json!({ "tab": tab, "ref": bob })).await?;
    let clicked = script(&grant, &tab, "JSON.stringify(clicked)").await?;
    // Either it is that row and was clicked, or it says so and nothing was.
    ensure!(
        (answer.code().is_empty()
            && clicked.contains("Bob")
            && !clicked.contains("Cleo")
            && !clicked.contains("Ada"))
            || (answer.code() == "stale_ref" && clicked.contains("[]")),
        "{} {clicked}",
        answer.raw
    );
    Ok(())
}

async fn a_ref_does_not_outlive_its_document(set: &mut Set) -> anyhow::Result<()> {
    let (grant, tab, bob) = rows(set).await?;
    grant.does("navigate_tab", json!({ "tab": tab, "action": "reload" })).await?;
    let answer = grant.call("click_element", json!({ "tab": tab, "ref": bob })).await?;
    ensure!(["unknown_ref", "stale_ref", "document_changed"].contains(&answer.code()), "{}", answer.raw);
    ensure!(script(&grant, &tab, "JSON.stringify(clicked)").await?.contains("[]"));
    Ok(())
}

async fn guarded_fields_take_nothing(set: &mut Set) -> anyhow::Result<()> {
    let page = "<title>Sign in</title><label>Password <input type=password></label>
        <label>Code <input autocomplete=one-time-code></label><label>Card <input autocomplete=cc-number></label>
        <label>Name <input></label>";
    let url = set.pages.put("/guarded", page);
    let grant = set.grant("Try to sign in.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    let outline = grant.read(&tab).await?;
    for label in ["Password", "Code", "Card"] {
        let field = ref_of(&outline, &format!("textbox \"{label}\""))?;
        let typing = json!({ "tab": tab, "ref": field, "text": "hunter2" });
        refused(grant.call("type_text", typing).await, "guarded_field")?;
        // With the focus there already, by its place, and key by key as well.
        let focus = format!(
            "document.querySelectorAll('input')[{}].focus()",
            ["Password", "Code", "Card"].iter().position(|l| *l == label).unwrap_or(0)
        );
        script(&grant, &tab, &focus).await?;
        refused(grant.call("type_text", json!({ "tab": tab, "text": "hunter2" })).await, "guarded_field")?;
        refused(grant.call("press_key", json!({ "tab": tab, "key": "a" })).await, "guarded_field")?;
    }
    let held = script(&grant, &tab, "[...document.querySelectorAll('input')].map(one => one.value).join('')")
        .await?;
    ensure!(held.contains("\"\""), "{held}");
    // From a field that is not guarded into one that is, by a line's end.
    script(&grant, &tab, "document.querySelectorAll('input')[3].onkeydown = event => { if (event.key === 'Enter') document.querySelector('input').focus() }").await?;
    let name = ref_of(&outline, "textbox \"Name\"")?;
    let hop = grant.call("type_text", json!({ "tab": tab, "ref": name, "text": "Ada\nhunter2" })).await?;
    ensure!(hop.code() == "guarded_field" && hop.field("outcome") == "maybe_done", "{}", hop.raw);
    let password = script(&grant, &tab, "document.querySelector('input').value").await?;
    ensure!(password.contains("\"\""), "{password}");
    Ok(())
}

async fn a_newline_is_a_real_enter(set: &mut Set) -> anyhow::Result<()> {
    let page = "<title>Find</title><form onsubmit=\"event.preventDefault(); document.title = 'sought ' + q.value\"><input id=q aria-label=Search></form><textarea aria-label=Note></textarea>";
    let url = set.pages.put("/find", page);
    let grant = set.grant("Search for something.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    let outline = grant.read(&tab).await?;
    let search = ref_of(&outline, "\"Search\"")?;
    grant.does("type_text", json!({ "tab": tab, "ref": search, "text": "wasm\n" })).await?;
    ensure!(script(&grant, &tab, "document.title").await?.contains("sought wasm"));
    let note = ref_of(&outline, "\"Note\"")?;
    let typed = grant.does("type_text", json!({ "tab": tab, "ref": note, "text": "one\ntwo" })).await?;
    ensure!(typed.field("outcome") == "confirmed", "{}", typed.raw);
    ensure!(script(&grant, &tab, "document.querySelector('textarea').value").await?.contains("one\\ntwo"));
    Ok(())
}

async fn what_cannot_be_clicked_says_why(set: &mut Set) -> anyhow::Result<()> {
    let page = "<title>Blocked</title><button id=off disabled>Off</button><button id=none style='display:none'>None</button>
        <button id=under>Under</button><div style='position:fixed;inset:0;background:#fff8'>Over everything</div>";
    let url = set.pages.put("/blocked", page);
    let grant = set.grant("Click what cannot be clicked.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    for selector in ["#off", "#none", "#under"] {
        let answer: Value = {
            let answer = grant.call("click_element", json!({ "tab": tab, "selector": selector })).await?;
            ensure!(
                ["not_actionable", "stale_ref", "unknown_ref", "invalid_argument"].contains(&answer.code()),
                "{selector}: {}",
                answer.raw
            );
            answer.structured
        };
        ensure!(answer["outcome"] != "maybe_done", "{selector}: {answer}");
    }
    Ok(())
}
