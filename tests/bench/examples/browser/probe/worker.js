// What a browser itself takes, with none of ours in between. Each figure is the mean of ten calls, as the clock is
// coarse.
const TEN = 10;

async function timed(samples, call) {
  const times = [];
  for (let sample = 0; sample < samples; sample++) {
    const start = performance.now();
    for (let turn = 0; turn < TEN; turn++) await call();
    times.push((performance.now() - start) / TEN);
  }
  return times;
}

async function evaluate(samples, url) {
  const tab = await chrome.tabs.create({ url, active: false });
  const target = { tabId: tab.id };
  await chrome.debugger.attach(target, "1.3");
  const params = { expression: "1", returnByValue: true };
  const call = () => chrome.debugger.sendCommand(target, "Runtime.evaluate", params);
  await timed(3, call);
  const times = await timed(samples, call);
  await chrome.debugger.detach(target);
  return times;
}

async function echo(samples, host, size) {
  const port = chrome.runtime.connectNative(host);
  let answered = () => {};
  let ended = () => {};
  const gone = new Promise((_, reject) => { ended = () => reject(new Error(chrome.runtime.lastError?.message ?? "the host ended")); });
  gone.catch(() => {});
  port.onMessage.addListener(() => answered());
  port.onDisconnect.addListener(() => ended());
  const message = { text: "x".repeat(size) };
  const call = () => Promise.race([gone, new Promise((resolve) => { answered = resolve; port.postMessage(message); })]);
  await timed(3, call);
  const times = await timed(samples, call);
  port.disconnect();
  return times;
}
