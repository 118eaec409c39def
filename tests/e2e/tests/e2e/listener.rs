//! The door for agents: what a request must show, in both wire versions.

use anyhow::ensure;
use consentry_test_support::mcp::{McpClient, Wire};
use serde_json::json;

use crate::stage::{ASKING, Set, Test, tests};

pub(crate) fn tests() -> Vec<Test> {
    tests![ASKING;
        without_a_key_of_this_path_nothing_answers,
        a_page_of_any_origin_is_refused,
        a_host_that_is_not_loopback_is_refused,
        a_path_that_is_not_enabled_does_not_exist,
        both_wire_versions_list_the_same_tools,
        a_key_of_this_machine_does_not_come_through_a_proxy,
    ]
}

async fn status(client: &McpClient, headers: &[(&str, &str)]) -> anyhow::Result<u16> {
    let (_, ask) = client.request("tools/list", json!({}));
    Ok(client.raw(headers, &ask).await?.status)
}

async fn without_a_key_of_this_path_nothing_answers(set: &mut Set) -> anyhow::Result<()> {
    for authorization in ["", "Bearer", "Bearer ", "Bearer consentry_00", "Basic dGVzdGVy", &set.key.clone()]
    {
        let answered = status(&set.client, &[("authorization", authorization)]).await?;
        ensure!(answered == 401, "{authorization:?}: {answered}");
    }
    let almost = format!("Bearer {}", &set.key[..set.key.len() - 1]);
    ensure!(status(&set.client, &[("authorization", &almost)]).await? == 401);
    ensure!(status(&set.client, &[]).await? == 200);
    Ok(())
}

async fn a_page_of_any_origin_is_refused(set: &mut Set) -> anyhow::Result<()> {
    let own = format!("http://127.0.0.1:{}", set.hub.mcp_port());
    for origin in ["https://example.com", "null", "http://localhost", &own] {
        let answered = status(&set.client, &[("origin", origin)]).await?;
        ensure!(answered == 403, "{origin}: {answered}");
    }
    Ok(())
}

async fn a_host_that_is_not_loopback_is_refused(set: &mut Set) -> anyhow::Result<()> {
    let port = set.hub.mcp_port();
    for host in [
        "example.com".to_owned(),
        format!("example.com:{port}"),
        format!("127.0.0.1.example.com:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port + 1),
        format!("192.168.1.2:{port}"),
    ] {
        let answered = status(&set.client, &[("host", &host)]).await?;
        ensure!(answered == 403, "{host}: {answered}");
    }
    ensure!(status(&set.client, &[("host", &format!("localhost:{port}"))]).await? == 200);
    Ok(())
}

async fn a_path_that_is_not_enabled_does_not_exist(set: &mut Set) -> anyhow::Result<()> {
    for path in ["shell", "computer", "messages", "nonsense", "browser/..", "%2e%2e"] {
        let elsewhere = McpClient::new(set.hub.mcp_url(path), &set.key);
        ensure!(status(&elsewhere, &[]).await? == 404, "{path}");
    }
    Ok(())
}

async fn both_wire_versions_list_the_same_tools(set: &mut Set) -> anyhow::Result<()> {
    let mut lists = Vec::new();
    for wire in Wire::ALL {
        let client = set.client.clone().speaking(wire);
        let about = client.initialize().await?;
        ensure!(
            about.to_string().contains("consentry-browser") && about.to_string().contains("untrusted"),
            "{about}"
        );
        lists.push(client.tools().await?);
        let refusal = client.call("list_tabs", json!({})).await?;
        ensure!(refusal.code() == "no_grant", "{}", refusal.raw);
    }
    ensure!(lists[0] == lists[1] && lists[0].len() >= 14, "{}", lists[0].len());
    let bytes = serde_json::to_string(&lists[0])?.len();
    ensure!(bytes <= 12 * 1024, "tools/list has {bytes} bytes");
    Ok(())
}

async fn a_key_of_this_machine_does_not_come_through_a_proxy(set: &mut Set) -> anyhow::Result<()> {
    for header in ["cf-connecting-ip", "cf-ray", "x-forwarded-for", "forwarded"] {
        let answered = status(&set.client, &[(header, "203.0.113.7")]).await?;
        ensure!(answered == 403, "{header}: {answered}");
    }
    Ok(())
}
