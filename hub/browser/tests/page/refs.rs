//! A ref never means another element than the one that was shown.

use consentry_browser::page::{
    Change, Checked, Description, Element, Purpose, Read, Ref, Resolve, Resolved, TargetBy,
};

use crate::harness::{Doc, reference_in, run};

impl Doc {
    async fn resolve(&self, reference: Ref) -> anyhow::Result<Resolved> {
        self.call(&Resolve { reference, refresh: false }).await
    }

    /// Asserts that the ref is moved for these reasons, here and for a click, and returns what it was and is.
    async fn moved(&self, reference: Ref, reasons: &[Change]) -> anyhow::Result<(Description, Element)> {
        let located = self.locate(TargetBy::Ref(reference), Purpose::Click).await?;
        assert!(matches!(located, consentry_browser::page::Located::Moved { .. }), "{located:?}");
        match self.resolve(reference).await? {
            Checked::Moved { was, now, why } => {
                assert_eq!(why, reasons);
                Ok((was, now))
            }
            other => anyhow::bail!("not moved: {other:?}"),
        }
    }

    async fn is_ok(&self, reference: Ref) -> anyhow::Result<bool> {
        Ok(matches!(self.resolve(reference).await?, Checked::Ok(_)))
    }
}

const PEOPLE: &str = "
    <div id=list></div>
    <script>
      let people = [{name: 'Bob', state: 'Active'}, {name: 'Carol', state: 'Active'}, {name: 'Dan', state: 'Away'}];
      const byName = new Map(), byIndex = [];
      function row(node, person) { ROW }
      // With keys each person keeps a node; without, each place in the list does.
      function render(keyed) {
        const nodes = people.map((person, i) => {
          const node = (keyed ? byName.get(person.name) : byIndex[i]) ?? document.createElement(TAG);
          byName.set(person.name, node); byIndex[i] = node;
          row(node, person); return node;
        });
        list.replaceChildren(...nodes);
      }
      render(true);
    </script>";

fn people(tag: &str, row: &str) -> String {
    PEOPLE.replace("TAG", &format!("'{tag}'")).replace("ROW", row)
}

/// Reuses the nodes in a row, as a virtual DOM does.
const REUSE: &str = "if (!node.firstChild) node.innerHTML = MARKUP; node.querySelector('.n').textContent = person.name; \
                     node.querySelector('.s').textContent = person.state;";

fn nth_delete(outline: &str, n: usize) -> anyhow::Result<Ref> {
    let line = outline.lines().filter(|line| line.contains("button \"Delete\"")).nth(n);
    reference_in(line.unwrap_or_default())
}

#[test]
fn refs_stay_over_readings_and_are_never_reused() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open("<button id=a>A</button><button id=b>B</button>").await?;
        let first = doc.outline().await?;
        doc.page("a.before(document.createElement('hr'), Object.assign(document.createElement('button'), {textContent: 'New'}))").await?;
        let second = doc.outline().await?;
        assert_eq!(first, "button \"A\" [e1]\nbutton \"B\" [e2]");
        assert_eq!(second, "button \"New\" [e3]\nbutton \"A\" [e1]\nbutton \"B\" [e2]");
        assert!(matches!(doc.resolve("e9".parse()?).await?, Checked::Unknown));
        Ok(())
    })
}

#[test]
fn a_keyed_reorder_keeps_every_ref() -> anyhow::Result<()> {
    let row =
        REUSE.replace("MARKUP", "'<span class=n></span> <span class=s></span> <button>Delete</button>'");
    run(async {
        for tag in ["div", "li"] {
            let doc = Doc::open(&people(tag, &row)).await?;
            let outline = doc.outline().await?;
            let [bob, carol] = [nth_delete(&outline, 0)?, nth_delete(&outline, 1)?];
            doc.page("people.reverse(); render(true)").await?;
            assert!(doc.is_ok(bob).await? && doc.is_ok(carol).await?);
            doc.page("people = people.filter((p) => p.name !== 'Bob'); render(true)").await?;
            assert!(doc.is_ok(carol).await?);
            let gone = doc.resolve(bob).await?;
            assert!(matches!(gone, Checked::Gone { was: Some(_) }), "{gone:?}");
        }
        Ok(())
    })
}

#[test]
fn a_row_that_is_reused_for_somebody_else_is_moved() -> anyhow::Result<()> {
    let shapes = [
        ("div", "'<span class=n></span> <span class=s></span> <button>Delete</button>'"),
        ("li", "'<button>Delete</button> <b class=n></b> <i class=s></i>'"),
        ("tr", "'<td class=n></td><td><span class=s></span> <button>Delete</button></td>'"),
        (
            "p",
            "'<span><input type=checkbox><span class=n></span></span> <span class=s></span> <button>Delete</button>'",
        ),
        // A cell beside cells like it: its own text does not tell rows apart.
        (
            "div",
            "'<div class=\"c n\"></div><div class=c><span class=s></span> <button>Delete</button></div>'",
        ),
        ("section", "'<h3 class=n></h3><div><div><p class=s></p><button>Delete</button></div></div>'"),
    ];
    run(async {
        for (tag, html) in shapes {
            let doc = Doc::open(&people(tag, &REUSE.replace("MARKUP", html))).await?;
            let outline = doc.outline().await?;
            let bob = nth_delete(&outline, 0)?;
            assert!(doc.is_ok(bob).await?);
            doc.page("people.shift(); render(false)").await?;
            let (was, now) = doc.moved(bob, &[Change::Context]).await?;
            assert!(
                was.context.contains("Bob") && now.description.context.contains("Carol"),
                "{html}: {was:?} {now:?}"
            );
            // Reading again renews it, under the same ref.
            assert_eq!(nth_delete(&doc.outline().await?, 0)?, bob);
            assert!(doc.is_ok(bob).await?);
        }
        Ok(())
    })
}

#[test]
fn orders_that_differ_in_digits_only_are_told_apart() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open("<table><tr><td id=n>1001<td>Shipped<td><button>Cancel</button><tr><td>1002<td>Shipped<td><button>Cancel</button></table>").await?;
        let line = doc.outline().await?;
        let first = reference_in(line.lines().find(|line| line.contains("1001")).unwrap_or_default())?;
        doc.page("n.textContent = '1003'").await?;
        doc.moved(first, &[Change::Context]).await?;
        Ok(())
    })
}

#[test]
fn what_is_no_row_belongs_to_the_heading_above() -> anyhow::Result<()> {
    run(async {
        let doc =
            Doc::open("<main><h1 id=h>Invoice 1001 (2)</h1><p>text</p><button>Pay</button></main>").await?;
        let pay = doc.find("Pay").await?;
        doc.page("h.textContent = 'Invoice 1001 (3)'").await?;
        assert!(doc.is_ok(pay).await?, "a count at a heading's end ticks");
        doc.page("h.textContent = 'Invoice 1002 (3)'").await?;
        doc.moved(pay, &[Change::Context]).await?;
        Ok(())
    })
}

#[test]
fn rows_of_a_virtual_list_are_moved_when_scrolled() -> anyhow::Result<()> {
    run(async {
        let rows: String =
            (0..5).map(|i| format!("<div class=row><a href='/i/{i}'>Item {i}</a></div>")).collect();
        let doc = Doc::open(&format!("<div id=list>{rows}</div>")).await?;
        let item = doc.find("Item 2").await?;
        doc.page("document.querySelectorAll('a').forEach((a, i) => { a.href = `/i/${i + 40}`; a.textContent = `Item ${i + 40}` })").await?;
        let (was, now) = doc.moved(item, &[Change::Name, Change::Key]).await?;
        assert_eq!((was.name.as_str(), now.description.name.as_str()), ("Item 2", "Item 42"));
        Ok(())
    })
}

#[test]
fn changes_that_do_not_change_what_it_is_are_none() -> anyhow::Result<()> {
    let html = "<ul><li>Tea <button id=b aria-expanded=false>More</button> <input id=i aria-label=Count> <button id=f>Follow</button>
        <time>1 s ago</time> <span aria-live=polite>quiet</span> <output>3</output> <progress value=1></progress></li></ul>";
    run(async {
        let doc = Doc::open(html).await?;
        let refs = [doc.find("More").await?, doc.find("Count").await?];
        doc.page(
            "b.ariaExpanded = 'true'; b.className = 'x'; b.disabled = true; i.value = 'typed'; f.textContent = 'Following'; f.ariaPressed = 'true';
             document.querySelector('time').textContent = '2 s ago'; document.querySelector('span').textContent = 'loud';
             document.querySelector('output').textContent = '4'; document.querySelector('progress').value = 0.5; b.parentNode.className = 'selected'",
        )
        .await?;
        for reference in refs {
            assert!(doc.is_ok(reference).await?, "{reference}");
        }
        // A price is no such change: the rule is strict, since a digit may be all that tells two rows apart.
        doc.page("document.querySelector('li').append(' $4')").await?;
        doc.moved(refs[1], &[Change::Context]).await?;
        Ok(())
    })
}

#[test]
fn a_label_that_counts_is_moved_until_it_was_shown_again() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open("<button id=b>Buy (3)</button>").await?;
        let buy = doc.find("Buy").await?;
        doc.page("b.textContent = 'Buy (4)'").await?;
        let (was, now) = doc.moved(buy, &[Change::Name]).await?;
        assert_eq!((was.name.as_str(), now.description.name.as_str()), ("Buy (3)", "Buy (4)"));
        // Finding out about it is no reading.
        doc.moved(buy, &[Change::Name]).await?;
        let shown = doc.call(&Resolve { reference: buy, refresh: true }).await?;
        assert!(matches!(shown, Checked::Moved { .. }));
        assert!(doc.is_ok(buy).await?);
        Ok(())
    })
}

#[test]
fn a_page_of_the_outline_renews_only_what_it_shows() -> anyhow::Result<()> {
    run(async {
        let buttons: String = (0..50).map(|i| format!("<button id=b{i}>Button {i}</button>")).collect();
        let doc = Doc::open(&buttons).await?;
        let first = doc.read(&Read { max_chars: 300, ..Read::default() }).await?;
        let shown = reference_in(first.text.lines().next().unwrap_or_default())?;
        doc.page("b0.textContent = 'Delete all'").await?;
        doc.read(&Read { max_chars: 300, cursor: first.cursor, ..Read::default() }).await?;
        doc.moved(shown, &[Change::Name]).await?;
        Ok(())
    })
}

#[test]
fn a_selector_does_not_renew_a_ref() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open("<button id=b>Keep</button>").await?;
        let keep = doc.find("Keep").await?;
        doc.page("b.textContent = 'Delete'").await?;
        assert_eq!(doc.aim("#b").await?.element.reference, keep);
        doc.moved(keep, &[Change::Name]).await?;
        Ok(())
    })
}

#[test]
fn after_a_rerender_the_only_twin_is_named_but_never_taken() -> anyhow::Result<()> {
    let html = "<div id=root><h2>Cart</h2><ul><li>Tea <button>Remove</button></li><li>Rice <button>Remove</button></li></ul></div>";
    run(async {
        let doc = Doc::open(html).await?;
        let outline = doc.outline().await?;
        let rice = reference_in(outline.lines().find(|line| line.contains("Rice")).unwrap_or_default())?;
        doc.page("root.innerHTML = root.innerHTML").await?;
        let Checked::Replaced { was, now } = doc.resolve(rice).await? else { anyhow::bail!("not replaced") };
        assert_eq!((was.context.as_str(), now.description.context.as_str()), ("Rice", "Rice"));
        assert_ne!(now.reference, rice);
        assert!(doc.is_ok(now.reference).await?);
        let located = doc.locate(TargetBy::Ref(rice), Purpose::Click).await?;
        assert!(matches!(located, consentry_browser::page::Located::Replaced { .. }), "{located:?}");
        doc.page("root.innerHTML = root.innerHTML.replace('Tea', 'Rice')").await?;
        let gone = doc.resolve(rice).await?;
        assert!(matches!(gone, Checked::Gone { .. }), "two look the same: {gone:?}");
        Ok(())
    })
}

#[test]
fn a_twin_is_found_in_a_shadow_root() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open("<div id=h></div><script>h.attachShadow({mode: 'open'}).innerHTML = '<button>Inside</button>'</script>").await?;
        let inside = doc.find("Inside").await?;
        doc.page("h.shadowRoot.innerHTML += ''").await?;
        let answer = doc.resolve(inside).await?;
        assert!(matches!(answer, Checked::Replaced { .. }), "{answer:?}");
        Ok(())
    })
}

#[test]
fn a_form_that_clobbers_its_row_is_told_apart_too() -> anyhow::Result<()> {
    run(async {
        let trap = "<input name=parentNode><input name=assignedSlot><input name=previousElementSibling>";
        let doc = Doc::open(&format!(
            "<ul><li><b id=n>Bob</b><form>{trap}<button>Delete</button></form></li></ul>"
        ))
        .await?;
        let delete = doc.find("Delete").await?;
        doc.page("n.textContent = 'Carol'").await?;
        doc.moved(delete, &[Change::Context]).await?;
        Ok(())
    })
}
