//! Waiting for a state, and what an action did.

use consentry_browser::page::{EndObservation, Observation, Observe, Ref, Wait, WaitFor, Waited};

use crate::harness::{Doc, run};

impl Doc {
    async fn wait(&self, what: WaitFor, gone: bool, timeout_ms: u32) -> anyhow::Result<Waited> {
        self.call(&Wait { what, gone, timeout_ms }).await
    }

    /// Watches what a click on an element does.
    async fn click_watched(&self, selector: &str, expected: u64) -> anyhow::Result<Observation> {
        let target = self.aim(selector).await?;
        self.call(&Observe { reference: Some(target.element.reference) }).await?;
        self.click(&target).await?;
        // The click was answered, so its handlers have run; anything later is waited for by the test.
        let seen = self.call(&EndObservation {}).await?;
        let seen = seen.ok_or_else(|| anyhow::anyhow!("nothing was watched"))?;
        let clicks =
            seen.events.iter().filter(|event| event.kind == "click" && event.on_target && event.trusted);
        assert_eq!(clicks.count() as u64, expected, "{seen:?}");
        Ok(seen)
    }
}

const SOON: u32 = 20_000;

#[test]
fn waits_for_what_appears_and_what_goes() -> anyhow::Result<()> {
    let html = "<style>.x #css{display:block} #css{display:none}</style><p id=css>Shown by a style</p><p id=here>Here now</p>
        <div id=host></div><script>host.attachShadow({mode: 'open'})</script>";
    let steps = [
        (WaitFor::Text("two words".to_owned()), false, "here.innerHTML = 'two <b> words</b>'"),
        (WaitFor::Text("Shown by a".to_owned()), false, "document.body.className = 'x'"),
        (WaitFor::Text("Shown by a".to_owned()), true, "document.body.className = ''"),
        (WaitFor::Selector("#added".to_owned()), false, "here.innerHTML = '<i id=added>i</i>'"),
        (WaitFor::Selector("#added".to_owned()), true, "added.style.visibility = 'hidden'"),
        (
            WaitFor::Text("in the shadow".to_owned()),
            false,
            "host.shadowRoot.innerHTML = '<p>in the shadow</p>'",
        ),
        (WaitFor::Url("#there".to_owned()), false, "location.hash = 'there'"),
    ];
    run(async {
        let doc = Doc::open(html).await?;
        for (what, gone, then) in steps {
            let later = format!("void setTimeout(() => {{ {then} }}, 20)");
            let (waited, _) = tokio::try_join!(doc.wait(what.clone(), gone, SOON), doc.page(&later))?;
            assert!(waited.found && waited.error.is_none(), "{what:?}: {waited:?}");
        }
        Ok(())
    })
}

#[test]
fn waiting_ends_at_its_bound_and_says_so() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open("<p>Something <button>Go</button></p><p hidden>unseen</p>").await?;
        let never = doc.wait(WaitFor::Text("unseen".to_owned()), false, 50).await?;
        assert!(!never.found && never.waited_ms >= 50, "{never:?}");
        let at_once = doc.wait(WaitFor::Text("Go".to_owned()), false, SOON).await?;
        assert!(at_once.found && at_once.waited_ms < 1_000, "{at_once:?}");
        let button: Ref = doc.find("Go").await?;
        assert_eq!(at_once.reference, Some(button));
        let bad = doc.wait(WaitFor::Selector("p[".to_owned()), false, SOON).await?;
        assert!(!bad.found && bad.error.is_some(), "{bad:?}");
        let (gone, _) = tokio::try_join!(
            doc.wait(WaitFor::Ref(button), true, SOON),
            doc.page("void setTimeout(() => document.querySelector('button').remove(), 20)")
        )?;
        assert!(gone.found, "{gone:?}");
        Ok(())
    })
}

#[test]
fn a_click_is_told_by_what_it_did() -> anyhow::Result<()> {
    let html = "<button id=idle>Idle</button><label>Box <input id=box type=checkbox></label><button id=open onclick='d.show()'>Open</button>
        <dialog id=d>Dialog</dialog><button id=go onclick='location.hash = \"x\"'>Go</button>
        <ul><li>Tea <button id=row onclick='this.after(\"done\")'>Row</button></li><li id=other></li></ul>
        <button id=vanish onclick='this.remove()'>Vanish</button><div id=host></div>
        <script>host.attachShadow({mode: 'open'}).innerHTML = '<button id=deep>Deep</button>'</script>";
    run(async {
        let doc = Doc::open(html).await?;
        let idle = doc.click_watched("#idle", 1).await?;
        assert_eq!(
            (idle.mutations, idle.state_changed, idle.url_changed, idle.dialogs_opened),
            (0, false, false, 0),
            "{idle:?}"
        );
        assert!(idle.focus_changed && idle.events.iter().any(|event| event.kind == "pointerdown"));
        let boxed = doc.click_watched("#box", 1).await?;
        assert!(boxed.state_changed, "{boxed:?}");
        assert_eq!(doc.click_watched("#open", 1).await?.dialogs_opened, 1);
        let go = doc.click_watched("#go", 1).await?;
        assert!(go.url_changed && go.navigating.is_some_and(|url| url.ends_with("#x")));
        let row = doc.click_watched("#row", 1).await?;
        assert!(row.target_mutations > 0 && row.connected, "{row:?}");
        assert!(!doc.click_watched("#vanish", 1).await?.connected);
        assert!(doc.click_watched("#deep", 1).await?.connected);
        assert!(doc.call(&EndObservation {}).await?.is_none(), "each watch ends once");
        Ok(())
    })
}

#[test]
fn scripted_events_and_those_elsewhere_are_told_apart() -> anyhow::Result<()> {
    run(async {
        let doc = Doc::open("<button id=a>A</button><button id=b>B</button><p id=p>text</p>").await?;
        let target = doc.aim("#a").await?;
        doc.call(&Observe { reference: Some(target.element.reference) }).await?;
        doc.page("a.click(); b.click(); p.textContent = 'new'").await?;
        let seen =
            doc.call(&EndObservation {}).await?.ok_or_else(|| anyhow::anyhow!("nothing was watched"))?;
        let clicks: Vec<_> =
            seen.events.iter().map(|event| (event.kind.as_str(), event.on_target, event.trusted)).collect();
        assert_eq!(clicks, [("click", true, false), ("click", false, false)]);
        assert!(seen.mutations > 0 && seen.target_mutations == 0, "{seen:?}");
        Ok(())
    })
}
