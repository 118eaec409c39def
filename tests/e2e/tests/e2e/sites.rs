//! Sites: asked about on first touch, remembered if the owner says so, and forgotten on their word.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::stage::{HEADLESS, Set, Test, refused, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![HEADLESS;
        a_site_is_asked_about_on_first_touch_and_declining_lasts,
        a_remembered_site_is_not_asked_about_again_until_it_is_forgotten,
        a_site_for_this_grant_only_is_asked_about_in_the_next,
        a_redirect_to_another_site_asks_about_that_site,
        a_frame_of_a_site_that_is_not_allowed_is_one_line,
        a_site_that_is_not_allowed_is_listed_by_its_origin_alone,
    ]
}

const SECRET: &str = "only for those who may";

fn page(set: &Set) -> String {
    set.pages.put("/page", format!("<title>{SECRET}</title><p>{SECRET}</p>"));
    format!("{}/page", set.other_site())
}

/// Opens an address, and the owner answers the question that comes.
async fn open(
    set: &Set,
    grant: &consentry_test_support::scene::Grant,
    url: &str,
    button: &str,
) -> anyhow::Result<consentry_test_support::mcp::Called> {
    let opening = grant.call("open_tab", json!({ "url": url }));
    tokio::pin!(opening);
    let dialog = tokio::select! {
        opened = &mut opening => anyhow::bail!("nobody was asked: {}", opened?.raw),
        dialog = set.owner.next_dialog() => dialog?,
    };
    let (opened, clicked) = tokio::join!(opening, set.owner.answer(&dialog, button));
    clicked?;
    opened
}

async fn a_site_is_asked_about_on_first_touch_and_declining_lasts(set: &mut Set) -> anyhow::Result<()> {
    let url = page(set);
    let grant = set.grant("Open something else.", &[&set.site()]).await?;
    let declined = refused(open(set, &grant, &url, "reject").await, "site_not_allowed")?;
    ensure!(!declined.text.contains(SECRET));
    let shown = set.hub.dialogs_shown();
    refused(grant.call("open_tab", json!({ "url": url })).await, "site_not_allowed")?;
    ensure!(set.hub.dialogs_shown() == shown, "asked again at once");
    ensure!(set.pages.hits("/page") == 0, "the page was asked for");
    Ok(())
}

async fn remembered(set: &Set) -> anyhow::Result<Vec<Value>> {
    let listed = set.hub.run(&["site", "list", "--json"]).await?.json()?;
    Ok(listed.as_array().cloned().unwrap_or_default())
}

async fn a_remembered_site_is_not_asked_about_again_until_it_is_forgotten(
    set: &mut Set,
) -> anyhow::Result<()> {
    let url = page(set);
    let first = set.grant("Open it once.", &[]).await?;
    open(set, &first, &url, "allow").await?.ok()?;
    let known = remembered(set).await?;
    ensure!(known.len() == 1 && known[0]["site"] == set.other_site().as_str(), "{known:?}");
    ensure!(known[0]["client"] == "tester" && known[0]["path"] == "browser", "{known:?}");

    let shown = set.hub.dialogs_shown();
    let second = set.grant("Open it again.", &[]).await?;
    let tab = second.open(&url).await?;
    ensure!(second.read(&tab).await?.contains(SECRET));
    ensure!(set.hub.dialogs_shown() == shown + 1, "asked about a remembered site");
    // It was remembered for this key alone.
    let other = set.another_key("other").await?;
    let other = set.grant_to(&other, "Open it as somebody else.", &[]).await?;
    refused(open(set, &other, &url, "reject").await, "site_not_allowed")?;

    let forgotten = set.hub.run(&["site", "forget", &set.other_site(), "--json"]).await?;
    ensure!(forgotten.json()?["forgotten"] == 1, "{forgotten:?}");
    ensure!(remembered(set).await?.is_empty());
    // Also for the grant that uses it just now.
    let (read, clicked) =
        tokio::join!(second.call("read_page", json!({ "tab": tab })), set.owner.click("reject"));
    clicked?;
    ensure!(!refused(read, "site_not_allowed")?.text.contains(SECRET));
    set.hub.run(&["key", "revoke", "other"]).await?;
    Ok(())
}

async fn a_site_for_this_grant_only_is_asked_about_in_the_next(set: &mut Set) -> anyhow::Result<()> {
    let url = page(set);
    let first = set.grant("Open it for now.", &[]).await?;
    let opened = open(set, &first, &url, "grant").await?.ok()?;
    ensure!(first.read(opened.field("tab")).await?.contains(SECRET));
    ensure!(remembered(set).await?.is_empty());
    let second = set.grant("Open it later.", &[]).await?;
    refused(open(set, &second, &url, "reject").await, "site_not_allowed")?;
    Ok(())
}

async fn a_redirect_to_another_site_asks_about_that_site(set: &mut Set) -> anyhow::Result<()> {
    let url = page(set);
    let away = set.pages.redirect("/away", &url);
    let grant = set.grant("Follow a redirect.", &[&set.site()]).await?;
    let declined = refused(open(set, &grant, &away, "reject").await, "site_not_allowed")?;
    ensure!(!declined.text.contains(SECRET), "{}", declined.text);
    let grant = set.grant("Follow it again.", &[&set.site()]).await?;
    let opened = open(set, &grant, &away, "grant").await?.ok()?;
    ensure!(opened.field("url") == url, "{}", opened.raw);
    ensure!(grant.read(opened.field("tab")).await?.contains(SECRET));
    Ok(())
}

async fn a_frame_of_a_site_that_is_not_allowed_is_one_line(set: &mut Set) -> anyhow::Result<()> {
    let inner = page(set);
    let outer = set
        .pages
        .put("/outer", format!("<title>Outer</title><p>Around it</p><iframe src=\"{inner}\"></iframe>"));
    let grant = set.grant("Look at a page with a frame.", &[&set.site()]).await?;
    let tab = grant.open(&outer).await?;
    for mode in ["outline", "text"] {
        let read = grant.does("read_page", json!({ "tab": tab, "mode": mode })).await?;
        ensure!(read.text.contains("Around it") && !read.text.contains(SECRET), "{mode}: {}", read.text);
    }
    Ok(())
}

async fn a_site_that_is_not_allowed_is_listed_by_its_origin_alone(set: &mut Set) -> anyhow::Result<()> {
    let url = page(set);
    set.browser()?.cdp.call(None, "Target.createTarget", json!({ "url": url, "background": true })).await?;
    let grant = set.grant("List the tabs.", &[&set.site()]).await?;
    let listed = grant.does("list_tabs", json!({})).await?;
    ensure!(listed.text.contains(&set.other_site()), "{}", listed.text);
    ensure!(!listed.text.contains(SECRET) && !listed.text.contains("/page"), "{}", listed.text);
    Ok(())
}
