// The page script: reads a document as an outline, names its nodes by refs, and finds out whether an input really
// reached its target. One evaluation in an isolated world of a frame defines the frozen global `__consentry`; each
// function takes one JSON object and returns a JSON value or a promise of one.
//
// Rules kept throughout:
// - The page's DOM is never changed. Focus and scrolling happen only on request, listeners stay only while asked for.
// - The page is hostile. `form` and `document` let named elements shadow their own properties (`<input name=parentNode>`),
//   so everything generic goes through getters taken from the prototypes, which an isolated world keeps clean.
// - No requestAnimationFrame: it does not fire in background tabs.
// - Values of guarded fields (passwords, one-time codes, cards) never leave this file.
//
// The outline has one node a line, indented by one space a level:
//   # note               about the whole view (a modal dialog is open); only at the top
//   role "name" [e12] states value="…" "text" "text"
//   "text"               text that belongs to no node with a line of its own
// Page text appears only in JSON strings, so a line's first word, `[e12]` and `[secret]` are always ours. Refs are given to
// what can be acted on and to containers worth reading alone. `clickable` is an element without a role that reacts to
// clicks, `h2` a heading of level 2. A list item, row or heading that ends in its only node shares that node's line.
// `(+120)` after a string: so many characters were left out. `[secret]` is a guarded field, `filled` or not.
(() => {
  'use strict';
  if (Object.hasOwn(globalThis, '__consentry')) return;

  // ---- the DOM, by paths that the page cannot shadow ----

  const uncurry = (fn) => Function.prototype.call.bind(fn);
  const getter = (type, name) => uncurry(Object.getOwnPropertyDescriptor(type.prototype, name).get);
  const method = (type, name) => uncurry(type.prototype[name]);
  const all = (how, type, names) => names.split(' ').map((name) => how(type, name));
  const [nodeType, parentNode, firstChild, nextSibling, textContent, isConnected] =
    all(getter, Node, 'nodeType parentNode firstChild nextSibling textContent isConnected');
  const [rootOf, contains, positionOf] = all(method, Node, 'getRootNode contains compareDocumentPosition');
  const [localName, openRoot, assignedSlot, previousElement, nextElement] =
    all(getter, Element, 'localName shadowRoot assignedSlot previousElementSibling nextElementSibling');
  const [attr, hasAttr, matches, closest, checkVisibility, clientRects, boundingBox, scrollIntoView] =
    all(method, Element, 'getAttribute hasAttribute matches closest checkVisibility getClientRects getBoundingClientRect scrollIntoView');
  const [documentTitle, documentElement, bodyOf, isHidden] = all(getter, Document, 'title documentElement body hidden');
  const [createRange, createWalker] = all(method, Document, 'createRange createTreeWalker');
  const assignedNodes = method(HTMLSlotElement, 'assignedNodes');
  const computed = getComputedStyle;
  const inRoot = (how, name) => {
    const [ofDocument, ofShadow] = [how(Document, name), how(ShadowRoot, name)];
    return (root, ...args) => (root instanceof Document ? ofDocument : ofShadow)(root, ...args);
  };
  const [elementAt, elementById, queryRoot] = ['elementFromPoint', 'getElementById', 'querySelectorAll'].map((name) => inRoot(method, name));
  const activeIn = inRoot(getter, 'activeElement');
  const queryElement = method(Element, 'querySelectorAll');
  const isVisible = (el) => checkVisibility(el, { visibilityProperty: true });

  // Closed shadow roots cannot be reached from script: the hub resolves them over DevTools and hands them to `adopt`.
  const adopted = new WeakMap();
  let adoptedAny = false;
  const shadowOf = (el) => openRoot(el) ?? (adoptedAny ? (adopted.get(el) ?? null) : null);
  /** The document and every shadow root in it. */
  function roots() {
    const found = [document];
    for (const root of found) for (const el of queryRoot(root, '*')) {
      const shadow = shadowOf(el);
      if (shadow) found.push(shadow);
    }
    return found;
  }
  const queryAll = (selector, where = roots()) => where.flatMap((root) => [...queryRoot(root, selector)]);

  /** Children as rendered: a host's shadow tree, what is assigned to a slot, only the summary of a closed details. */
  function childrenOf(el, tag) {
    const shadow = shadowOf(el);
    const given = tag === 'slot' && !shadow ? assignedNodes(el) : [];
    if (given.length) return given;
    const nodes = [];
    for (let node = firstChild(shadow ?? el); node; node = nextSibling(node)) nodes.push(node);
    if (tag !== 'details' || el.open) return nodes;
    return nodes.filter((node) => node instanceof Element && localName(node) === 'summary').slice(0, 1);
  }
  /** Parent element as rendered. */
  function flatParent(el) {
    const slot = assignedSlot(el);
    if (slot) return slot;
    const parent = parentNode(el);
    if (parent instanceof ShadowRoot) return parent.host;
    if (!(parent instanceof Element)) return null;
    const closed = adopted.get(parent);
    return (closed && [...queryRoot(closed, 'slot')].find((s) => assignedNodes(s).includes(el))) ?? parent;
  }
  function within(el, ancestor) {
    while (el && el !== ancestor) el = flatParent(el);
    return el !== null;
  }
  function deepest(el, inner) {
    for (let root, next; el && (root = shadowOf(el)) && (next = inner(root)) && next !== el; ) el = next;
    return el;
  }
  const activeElement = () => deepest(activeIn(document), activeIn);
  const hitAt = (x, y) => deepest(elementAt(document, x, y), (root) => elementAt(root, x, y));

  // ---- text that leaves the page ----

  const [NAME_MAX, TEXT_MAX, PRINT_MAX, CONTEXT_MAX, DEPTH_MAX] = [120, 400, 500, 160, 600];
  // Control, bidi, invisible and tag characters: shown as escapes, so that they neither reorder nor hide text.
  const UNSAFE =
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;
  const unit = (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const clean = (text) => text.toWellFormed().replace(UNSAFE, (c) => c.split('').map(unit).join(''));
  // Leaves single spaces alone, which most texts have nothing but.
  const collapse = (text) => text.replace(/[^\S ]\s*| \s+/g, ' ').trim();
  const cut = (text, max) => (text.length <= max ? text : text.slice(0, /[\ud800-\udbff]/.test(text[max - 1]) ? max - 1 : max));
  const short = (text, max = NAME_MAX) => clean(text.length > max ? `${cut(text, max)}…` : text);
  function quote(text, max = NAME_MAX) {
    const kept = cut(text, max);
    const inner = clean(kept.replace(/[\\"]/g, '\\$&'));
    return kept.length === text.length ? `"${inner}"` : `"${inner}…" (+${text.length - kept.length})`;
  }

  // ---- roles ----

  const [NONE, ACT, FIELD, AREA, GROUP, ROW, CELL, HEAD, LEAF] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const KIND = new Map();
  for (const [kind, names] of [
    [NONE, 'none presentation generic'],
    // Acted on, and named by their content.
    [ACT, 'button link checkbox radio switch tab menuitem menuitemcheckbox menuitemradio option treeitem summary clickable'],
    // Acted on, not named by their content.
    [FIELD, 'textbox searchbox combobox listbox spinbutton slider file color date time month week datetime iframe video audio canvas embed'],
    // Containers with a ref, and without.
    [AREA, 'navigation main banner contentinfo complementary region form search dialog alertdialog table grid treegrid tree toolbar menu'],
    [AREA, 'menubar tablist tabpanel radiogroup group article feed application'],
    [GROUP, 'list status alert log timer tooltip'],
    [ROW, 'row listitem'],
    [CELL, 'cell gridcell columnheader rowheader'],
    [HEAD, 'heading'],
    [LEAF, 'img progressbar meter'],
  ]) for (const name of names.split(' ')) KIND.set(name, kind);
  const table = (text) => new Map(text.split(' ').map((pair) => pair.split(':')));
  const TAG_ROLE = table(
    'article:article aside:complementary audio:audio button:button canvas:canvas dialog:dialog embed:embed fieldset:group footer:contentinfo ' +
      'form:form frame:iframe h1:heading h2:heading h3:heading h4:heading h5:heading h6:heading header:banner iframe:iframe img:img li:listitem ' +
      'main:main menu:list meter:meter nav:navigation object:embed ol:list option:option output:status progress:progressbar search:search ' +
      'section:region summary:summary svg:img table:table td:cell textarea:textbox th:columnheader tr:row ul:list video:video',
  );
  const INPUT_ROLE = table(
    'button:button checkbox:checkbox color:color date:date datetime-local:datetime file:file image:button month:month number:spinbutton ' +
      'radio:radio range:slider reset:button search:searchbox submit:button time:time week:week',
  );
  const set = (text) => new Set(text.split(' '));
  const SKIPPED = set('script style template noscript head link meta title desc defs datalist source track param hr');
  const CHILDLESS = set('input textarea select iframe frame video audio canvas object embed progress meter img');
  const LABELABLE = set('input textarea select button meter output progress');
  const SECTIONING = set('article aside main nav section');
  const truthy = (el, name) => ![null, '', 'false', 'undefined'].includes(attr(el, name));
  const isEditor = (el) => truthy(el, 'contenteditable') || attr(el, 'contenteditable') === '';
  const isBox = (el, tag) => tag === 'input' && (el.type === 'checkbox' || el.type === 'radio');
  const isDisabled = (el) => matches(el, ':disabled') || attr(el, 'aria-disabled') === 'true';

  /** The role by ARIA's rules. An unknown explicit role is ignored, so no text of the page passes as one. '' is generic. */
  function roleOf(el, tag) {
    const explicit = attr(el, 'role')?.toLowerCase().split(/\s+/).find((name) => KIND.has(name));
    if (explicit && KIND.get(explicit) !== NONE) return explicit;
    if (explicit && !hasAttr(el, 'tabindex')) return '';
    if (tag === 'a') return hasAttr(el, 'href') ? 'link' : '';
    if (tag === 'input') return INPUT_ROLE.get(el.type) ?? (hasAttr(el, 'list') ? 'combobox' : 'textbox');
    if (tag === 'select') return el.multiple || el.size > 1 ? 'listbox' : 'combobox';
    return TAG_ROLE.get(tag) ?? (isEditor(el) ? 'textbox' : '');
  }
  /** Acts by its role or says so by an attribute. (That `cursor: pointer` says so too is the walk's business.) */
  function acts(el, tag, role = roleOf(el, tag)) {
    const kind = KIND.get(role);
    return kind === ACT || kind === FIELD || hasAttr(el, 'onclick') || (hasAttr(el, 'tabindex') && !attr(el, 'tabindex').trim().startsWith('-'));
  }

  // ---- guarded fields ----

  // A "show password" button turns the type into text; the field stays guarded.
  const wasPassword = new WeakSet();
  /** Why the field is never read or typed into, or null. */
  function guarded(el, tag) {
    if (tag !== 'input' && tag !== 'textarea' && !isEditor(el)) return null;
    if (tag === 'input' && el.type === 'password') wasPassword.add(el);
    if (wasPassword.has(el)) return 'password';
    const tokens = (attr(el, 'autocomplete') ?? '').toLowerCase().split(/\s+/);
    const token = tokens.find((t) => /^(current-password|new-password|one-time-code|cc-[a-z-]+)$/.test(t));
    return token ?? ((computed(el).webkitTextSecurity ?? 'none') !== 'none' ? 'masked' : null);
  }

  // ---- visible text and accessible names ----

  const CELL_GAP = '\ufdd0'; // a noncharacter, as are those in `plainText`: no page uses them
  /** Feeds a sink the visible text at and below `el`. `naming`: as a name wants it (alt texts, labels, no aria-hidden). */
  function gather(el, sink, depth = 0) {
    const tag = localName(el);
    if (SKIPPED.has(tag) || el === sink.skip || depth > DEPTH_MAX) return;
    const style = computed(el);
    const display = style.display;
    if (display === 'none' || style.contentVisibility === 'hidden') return;
    if (tag === 'br') return sink.gap('\n');
    if (sink.naming && depth) {
      if (attr(el, 'aria-hidden') === 'true') return;
      const role = roleOf(el, tag);
      if (acts(el, tag, role)) sink.nested = true;
      if (role === 'group' || role === 'menu' || role === 'tree') return void (sink.nested = true);
      const label = attr(el, 'aria-label')?.trim() || (tag === 'img' ? attr(el, 'alt') : tag === 'svg' ? childText(el, 'title') : '');
      if (label) return sink.text(` ${label} `);
    } else if (tag === 'iframe' || tag === 'frame') return sink.frame?.(el);
    if (CHILDLESS.has(tag)) return;
    const gap = display === 'inline' || display === 'contents' ? '' : display === 'table-cell' ? CELL_GAP : display.startsWith('inline') ? ' ' : '\n';
    if (gap) sink.gap(gap);
    const seen = style.visibility === 'visible';
    for (const node of childrenOf(el, tag)) {
      const type = nodeType(node);
      if (type === 1) gather(node, sink, depth + 1);
      else if (type === 3 && seen) sink.text(node.data, tag === 'pre');
    }
    if (gap) sink.gap(gap);
  }
  /** {text, nested}: what names an element by its content, and whether something in there can be acted on by itself. */
  function contentText(el, skip = null) {
    const only = firstChild(el);
    if (only && nodeType(only) === 3 && !nextSibling(only) && !shadowOf(el)) return { text: cut(collapse(only.data), PRINT_MAX), nested: false };
    let text = '';
    const sink = { naming: true, nested: false, skip, text: (data) => (text += data), gap: () => (text += ' ') };
    gather(el, sink);
    return { text: cut(collapse(text), PRINT_MAX), nested: sink.nested };
  }
  function childText(el, tag) {
    for (let node = firstChild(el); node; node = nextSibling(node))
      if (node instanceof Element && localName(node) === tag) return tag === 'title' ? textContent(node) : contentText(node).text;
    return '';
  }
  function referredText(el, idList) {
    const root = rootOf(el);
    if (!(root instanceof Document || root instanceof ShadowRoot)) return '';
    const others = idList.trim().split(/\s+/).map((id) => elementById(root, id));
    return others.map((other) => (other ? attr(other, 'aria-label') || textContent(other) : '')).join(' ');
  }
  // `el.labels` searches the whole document for each element; during a reading all labels are collected once.
  let collected = null;
  const labelsOf = (el) => (collected ? (collected.get(el) ?? []) : [...(el.labels ?? [])]);
  function withLabels(work, where = roots()) {
    collected = new Map();
    for (const label of queryAll('label', where)) if (label.control) collected.set(label.control, [...(collected.get(label.control) ?? []), label]);
    try {
      return work();
    } finally {
      collected = null;
    }
  }
  /** The accessible name: labelledby, label, what the element brings, content for the roles named so, title, placeholder. */
  function nameOf(el, tag, role, content) {
    const labelledby = attr(el, 'aria-labelledby');
    let text = collapse((labelledby && referredText(el, labelledby)) || '') || collapse(attr(el, 'aria-label') ?? '');
    if (text) return cut(text, PRINT_MAX);
    if (LABELABLE.has(tag)) text = labelsOf(el).map((label) => contentText(label, el).text).join(' ');
    else if (tag === 'img') text = attr(el, 'alt');
    else if (tag === 'svg') text = childText(el, 'title');
    else if (tag === 'fieldset') text = childText(el, 'legend');
    else if (tag === 'table') text = childText(el, 'caption');
    if (!text && tag === 'input' && role === 'button')
      text = el.type === 'image' ? el.alt : el.value || { submit: 'Submit', reset: 'Reset' }[el.type];
    if (!text && tag !== 'input' && KIND.get(role) === ACT) text = (content ?? contentText(el)).text;
    return cut(collapse(text || attr(el, 'title') || attr(el, 'placeholder') || attr(el, 'aria-placeholder') || ''), PRINT_MAX);
  }

  // ---- refs and fingerprints ----
  //
  // A ref is a number for a node, never used twice. What the agent was last shown of the node is its fingerprint: tag, role,
  // name, identifying attributes, and context. Frameworks reuse nodes: with index keys "Delete" in Bob's row becomes
  // "Delete" in Carol's and stays the same node. So the context is the text of the row that the node stands in, and
  // outside rows the heading above. A row is an item, table row or article, or an element beside others like it; of these
  // the inner two count, since the inner one may be a cell.
  //
  // A wrong element is worse than a false alarm. So digits count (two orders may differ in nothing else), and a row whose
  // price ticked answers `moved`, which costs one reading. Left out is what changes without the row being about something
  // else: labels of buttons, fields and editors, `time`, `output`, live regions, progress, a count at a heading's end.
  // A link that leads somewhere is told by its name and target alone. Only a reading that shows a node renews its fingerprint.

  const ids = new WeakMap();
  const nodes = new Map(); // ref → WeakRef
  const prints = new Map(); // ref → fingerprint, of the refs that an agent was shown
  let lastId = 0;
  function refOf(el) {
    const known = ids.get(el);
    if (known) return known;
    const ref = `e${++lastId}`;
    ids.set(el, ref);
    nodes.set(ref, new WeakRef(el));
    return ref;
  }
  const VOLATILE = set('button input select textarea time output progress meter svg canvas iframe video audio');
  const VOLATILE_ROLES = /^(button|switch|tab|timer|status|alert|log|marquee|progressbar|meter|textbox|combobox)$/;
  function isVolatile(el, tag) {
    return SKIPPED.has(tag) || VOLATILE.has(tag) || hasAttr(el, 'aria-live') || hasAttr(el, 'contenteditable') || VOLATILE_ROLES.test(attr(el, 'role'));
  }
  function rowText(row) {
    let text = '';
    let budget = 400;
    const visit = (el) => {
      for (const node of childrenOf(el, '')) {
        if (text.length > 2 * CONTEXT_MAX || --budget < 0) return;
        const type = nodeType(node);
        const tag = type === 1 ? localName(node) : '';
        if (type === 3) text += node.data;
        if (type !== 1 || isVolatile(node, tag)) continue;
        text += tag === 'img' ? ` ${attr(node, 'alt') ?? ''} ` : ' ';
        visit(node);
      }
    };
    visit(row);
    return cut(collapse(text), CONTEXT_MAX);
  }
  const firstClass = (el) => (attr(el, 'class') ?? '').trim().split(/\s/, 1)[0];
  const isLike = (el, other) => other !== null && localName(el) === localName(other) && firstClass(el) === firstClass(other);
  const ITEMS = set('li tr article dd');
  const isItem = (el, tag) => ITEMS.has(tag) || /^(row|listitem|option|article|treeitem)$/.test(attr(el, 'role'));
  /** A cell is never a row, though it stands beside others like it. */
  const isBesideLike = (el, tag) => tag !== 'td' && tag !== 'th' && (isLike(el, previousElement(el)) || isLike(el, nextElement(el)));
  function headingAbove(el, cache) {
    const root = rootOf(el);
    const headings = cache.get(root) ?? queryRoot(root, HEADINGS);
    cache.set(root, headings);
    let [low, high] = [0, headings.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (positionOf(headings[middle], el) & Node.DOCUMENT_POSITION_FOLLOWING) low = middle + 1;
      else high = middle;
    }
    if (!low && root instanceof ShadowRoot) return headingAbove(root.host, cache);
    return low ? collapse(textContent(headings[low - 1])).replace(/ ?\(\d+\)$/, '') : '';
  }
  const HEADINGS = 'h1,h2,h3,h4,h5,h6,[role=heading]';
  /** {row, text}; `cache` keeps texts of rows and headings during one reading. */
  function contextOf(el, cache) {
    let [row, text] = [null, ''];
    let node = isConnected(el) && flatParent(el);
    for (let level = 0; node && level < 15; node = flatParent(node), level++) {
      const tag = localName(node);
      // Around an item only a further item counts: a list's own neighbours say nothing about its items.
      const counts = isItem(node, tag) || (!isItem(row ?? node, row ? localName(row) : tag) && isBesideLike(node, tag));
      if (!counts) continue;
      const own = cache.get(node) ?? rowText(node);
      cache.set(node, own);
      if (!own) continue;
      if (row) return { row, text: own === text ? text : `${text} | ${own}` };
      [row, text] = [node, own];
    }
    return row ? { row, text } : { row, text: isConnected(el) ? cut(headingAbove(el, cache), CONTEXT_MAX) : '' };
  }
  function fingerprint(el, tag, role, name, cache) {
    const href = (tag === 'a' && attr(el, 'href')) || '';
    const leads = href !== '' && !/^(#|javascript:)/i.test(href);
    const key = [attr(el, 'id') ?? '', attr(el, 'name') ?? '', leads ? href : ''];
    return { tag, role, name, key: key.join('\n'), context: leads ? '' : contextOf(el, cache).text };
  }
  function currentPrint(el, cache = new Map()) {
    const tag = localName(el);
    const role = roleOf(el, tag) || 'clickable';
    return fingerprint(el, tag, role, nameOf(el, tag, role), cache);
  }
  const shownPrint = ({ tag, role, name, context }) => ({ tag, role, name: short(name), context: short(context, 2 * CONTEXT_MAX) });
  /** Describes a node in an answer. A ref that the agent knows keeps its fingerprint: it may not see this answer. */
  function introduce(el, print = currentPrint(el)) {
    const ref = refOf(el);
    if (!prints.has(ref)) prints.set(ref, print);
    return { ref, ...shownPrint(print) };
  }
  const changes = (was, now) => ['role', 'name', 'key', 'context'].filter((part) => was[part] !== now[part]);

  /** What became of a ref: {status: 'ok'|'moved'|'replaced'|'gone'|'unknown', el?, was?, now?, why?}. */
  function lookUp(ref, refresh = false) {
    const print = prints.get(ref);
    if (!print) return { status: 'unknown' };
    const was = shownPrint(print);
    const el = nodes.get(ref).deref();
    if (el && isConnected(el)) {
      const now = currentPrint(el);
      const why = changes(print, now);
      if (refresh) prints.set(ref, now);
      return { status: why.length ? 'moved' : 'ok', el, was, now: { ref, ...shownPrint(now) }, why };
    }
    const where = roots();
    const [id, , href] = print.key.split('\n');
    const selector = `${print.tag}${id && `#${CSS.escape(id)}`}${href && `[href="${CSS.escape(href)}"]`}`;
    const alike = queryAll(selector, where).filter((other) => couldBeNamed(other, print.name));
    // Hundreds that say the same are not worth the time: none of them is the only one, as far as we know.
    const cache = new Map();
    const isTwin = (other) => !changes(print, currentPrint(other, cache)).length;
    const twins = alike.length > 200 ? [] : alike.length > 1 ? withLabels(() => alike.filter(isTwin), where) : alike.filter(isTwin);
    return twins.length === 1 ? { status: 'replaced', was, now: introduce(twins[0]) } : { status: 'gone', was };
  }
  /** Raw text, where it must be the name, costs far less than a name. */
  function couldBeNamed(el, name) {
    const only = firstChild(el);
    if (!only || nodeType(only) !== 3 || nextSibling(only) || CHILDLESS.has(localName(el))) return true;
    if (collapse(only.data.slice(0, 2 * PRINT_MAX)).startsWith(name)) return true;
    return hasAttr(el, 'aria-label') || hasAttr(el, 'aria-labelledby') || hasAttr(el, 'title');
  }
  /** Forgets nodes that are no more, once they are many: long-lived pages make rows without end. */
  function prune() {
    if (nodes.size < 50000) return;
    for (const [ref, weak] of nodes) if (!weak.deref() && nodes.delete(ref)) prints.delete(ref);
  }

  // ---- the outline ----

  function shownValue(el, tag, role) {
    if (guarded(el, tag)) return ` [secret]${(tag === 'input' || tag === 'textarea') && el.value ? ' filled' : ''}`;
    const value = (text) => (text ? ` value=${quote(collapse(String(text)))}` : '');
    if (tag === 'select') {
      const labels = [...el.options].slice(0, 12).map((option) => quote(collapse(option.label)));
      const few = el.options.length <= 12 && labels.join('').length <= 240;
      const chosen = [...el.selectedOptions].map((option) => quote(collapse(option.label)));
      return `${chosen.length ? ` value=${chosen.join('|')}` : ''} options=${few ? labels.join('|') : el.options.length}`;
    }
    if (role === 'file' && tag === 'input') return value([...el.files].map((file) => file.name).join(', '));
    if (tag === 'textarea' || tag === 'progress' || tag === 'meter' || (tag === 'input' && KIND.get(role) === FIELD)) return value(el.value);
    return value(attr(el, 'aria-valuetext') ?? attr(el, 'aria-valuenow'));
  }
  function states(el, tag, inert = false) {
    const box = isBox(el, tag);
    const checked = box ? (el.indeterminate ? 'mixed' : String(el.checked)) : attr(el, 'aria-checked');
    const expanded = tag === 'summary' ? parentNode(el)?.open === true : hasAttr(el, 'aria-expanded') ? truthy(el, 'aria-expanded') : null;
    return [
      checked === 'mixed' && 'mixed', checked === 'true' && 'checked', attr(el, 'aria-selected') === 'true' && 'selected',
      expanded !== null && (expanded ? 'expanded' : 'collapsed'), truthy(el, 'aria-pressed') && 'pressed', truthy(el, 'aria-current') && 'current',
      isDisabled(el) && 'disabled', inert && 'inert', (el.required === true || truthy(el, 'aria-required')) && 'required',
      (el.readOnly === true || truthy(el, 'aria-readonly')) && 'readonly',
      (truthy(el, 'aria-invalid') || (LABELABLE.has(tag) && matches(el, ':user-invalid'))) && 'invalid',
    ].reduce((line, state) => (state ? `${line} ${state}` : line), '');
  }
  function wordOf(node) {
    if (node.role !== 'heading') return node.role;
    const level = Math.floor(Number(attr(node.el, 'aria-level') ?? node.tag[1]));
    return `h${level >= 1 && level <= 9 ? level : 2}`;
  }
  const isText = (kid) => typeof kid === 'string';
  const [HIDDEN, MUTE, POINTER, SECTION, INERT] = [1, 2, 4, 8, 16];

  /** One walk builds a tree of {el, role, name, kids…}, in which strings are text. */
  function outline(start, { interactive, links, focus }) {
    let [omitted, depth] = [0, 0];
    function flush(out) {
      const text = out.run && collapse(out.run);
      out.run = '';
      if (text) out.kids.push(text);
    }
    function walk(el, tag, out, flags) {
      if (++depth > DEPTH_MAX) omitted++;
      else for (const node of childrenOf(el, tag)) {
        const type = nodeType(node);
        if (type === 1) visit(node, out, flags);
        else if (type === 3 && !(flags & (HIDDEN | MUTE))) out.run += node.data;
      }
      depth--;
    }
    function visit(el, out, flags) {
      const tag = localName(el);
      if (SKIPPED.has(tag)) return;
      const style = computed(el);
      const display = style.display;
      if (display === 'none') return;
      if (tag === 'br') return void (out.run += ' ');
      flags = style.visibility === 'visible' ? flags & ~HIDDEN : flags | HIDDEN;
      if (attr(el, 'aria-hidden') === 'true' || tag === 'legend' || tag === 'caption') flags |= MUTE;
      if (hasAttr(el, 'inert')) flags |= INERT;
      const pointer = !(flags & POINTER) && tag !== 'html' && tag !== 'body' && style.cursor === 'pointer';
      if (pointer) flags |= POINTER;
      let role = flags & HIDDEN ? '' : roleOf(el, tag);
      let active = !(flags & HIDDEN) && (pointer || acts(el, tag, role));
      if ((role === 'banner' || role === 'contentinfo') && flags & SECTION && !hasAttr(el, 'role')) role = '';
      if (tag === 'label' && el.control) {
        // The text is its control's name; the label of a hidden control is what a person clicks.
        const shown = isVisible(el.control);
        active = !shown && !(flags & HIDDEN);
        flags |= shown && !hasAttr(el.control, 'aria-label') && !hasAttr(el.control, 'aria-labelledby') ? MUTE | POINTER : POINTER;
      }
      if (SECTIONING.has(tag)) flags |= SECTION;
      if (active && !role) role = 'clickable';
      const kind = KIND.get(role) ?? NONE;
      const content = kind === ACT && !CHILDLESS.has(tag) ? contentText(el) : null;
      const name = kind === NONE || kind === HEAD || kind === CELL ? '' : nameOf(el, tag, role, content);
      const bare = tag === 'svg' && !name && !active && queryElement(el, 'text,a,[tabindex],[role],foreignObject').length > 0;
      if (kind === NONE || bare || (!name && !active && (role === 'group' || role === 'region'))) {
        if (style.contentVisibility === 'hidden') return;
        const block = display !== 'inline' && display !== 'contents';
        if (block) flush(out);
        walk(el, tag, out, flags);
        return block ? flush(out) : undefined;
      }
      const node = { el, tag, role, name, kind, active, run: '', kids: [], prefix: '', rest: '', card: false };
      if (active) node.rest = states(el, tag, (flags & INERT) !== 0);
      if (kind === FIELD || kind === LEAF) node.rest += shownValue(el, tag, role);
      if (active && el === focus) node.rest += ' focused';
      if (active && kind !== ACT && kind !== FIELD) node.rest += ' clickable';
      if (links && role === 'link') node.rest += ` href=${quote(attr(el, 'href') ?? '')}`;
      if (kind === ACT) {
        node.card = role === 'clickable' && content.nested && !hasAttr(el, 'aria-label');
        if (content?.nested) walk(el, tag, node, flags | POINTER | (node.card ? 0 : MUTE));
      } else if (tag === 'select') {
        if (el === start) for (const { label, selected, disabled } of el.options)
          node.kids.push({ role: 'option', name: collapse(label), kids: [], prefix: '', rest: `${selected ? ' selected' : ''}${disabled ? ' disabled' : ''}` });
      } else if (!CHILDLESS.has(tag) && tag !== 'svg' && !(kind === FIELD && guarded(el, tag))) {
        if (role === 'group' || role === 'menu' || role === 'tree') flags &= ~MUTE;
        walk(el, tag, node, kind === FIELD ? flags | POINTER : flags);
      }
      flush(node);
      flush(out);
      out.kids.push(...worth(node));
    }
    /** What of a finished node is worth lines: itself, only what is in it, or nothing. */
    function worth(node) {
      const { role, kind, active } = node;
      if (interactive && kind !== HEAD && kind !== FIELD && kind !== CELL) {
        if (kind === ROW && isText(node.kids[0])) node.name ||= cut(node.kids[0], 60);
        node.kids = node.kids.filter((kid) => !isText(kid));
      }
      const { kids, name } = node;
      const texts = kids.every(isText);
      const last = kids.at(-1);
      if (kind === HEAD && texts) node.kids = [kids.join(' ')];
      if (active) return [node];
      if (kind === CELL) return texts ? [kids.join(' ')] : kids;
      if (kind === LEAF) return !interactive && (name || node.rest) ? [node] : [];
      if (!kids.some((kid) => kid !== '')) return role.endsWith('dialog') ? [node] : [];
      if (kind === ROW && !name && (kids.length === 1 || (texts && role === 'listitem'))) return texts ? [kids.join(' ')] : kids;
      if (kind === GROUP && kids.length === 1 && !name) return kids;
      if ((kind === HEAD || kind === ROW) && !isText(last) && kids.slice(0, -1).every(isText)) {
        const own = [wordOf(node), ...(name ? [quote(name)] : []), ...kids.slice(0, -1).map((text) => quote(text, TEXT_MAX))];
        last.prefix = `${own.join(' ')} ${last.prefix}`;
        return [last];
      }
      if (kind === AREA && kids.length === 1 && last.role === 'list' && !last.name) node.kids = last.kids;
      return interactive && !name && kind !== HEAD && !/dialog|form/.test(role) ? node.kids : [node];
    }
    const top = { kids: [], run: '' };
    visit(start, top, 0);
    flush(top);
    return { kids: interactive ? top.kids.filter((kid) => !isText(kid)) : top.kids, omitted };
  }

  /** Lines of the tree, each with the node that it shows. Every ref is given out, whichever page of the outline is wanted. */
  function print(kids, notes) {
    const lines = notes.map((note) => ({ text: `# ${note}`, node: null }));
    const put = (siblings, indent) => {
      for (const node of siblings) {
        if (isText(node)) {
          lines.push({ text: indent + quote(node, TEXT_MAX), node: null });
          continue;
        }
        let text = `${indent}${node.prefix}${wordOf(node)}`;
        if (node.name && !node.card) text += ` ${quote(node.name)}`;
        if (node.active || node.kind === AREA) text += ` [${refOf(node.el)}]`;
        text += node.rest;
        const firstNode = node.kids.findIndex((kid) => !isText(kid));
        const inline = firstNode < 0 ? node.kids.length : node.kind === ROW ? firstNode : 0;
        for (let i = 0; i < inline; i++) text += ` ${quote(node.kids[i], TEXT_MAX)}`;
        lines.push({ text, node, indent: indent.length });
        if (inline < node.kids.length) put(inline ? node.kids.slice(inline) : node.kids, `${indent} `);
      }
    };
    put(kids, '');
    return lines;
  }

  /** What covers the view: an agent would otherwise plan with a page that does not react. */
  function coverNotes() {
    const tell = (el, what) => {
      const { ref, name } = introduce(el);
      const title = name || collapse(textContent(queryElement(el, HEADINGS)[0] ?? el));
      return `${what} ${title ? `${quote(title, 60)} ` : ''}[${ref}]`;
    };
    const notes = queryAll('dialog:modal,[aria-modal=true],:popover-open').filter(isVisible).map((el) => {
      if (matches(el, ':popover-open')) return tell(el, 'open popover:');
      return tell(el, matches(el, ':modal') ? 'the page is blocked by the modal dialog' : 'the page is covered by the dialog');
    });
    let cover = null;
    for (let el = notes.length ? null : hitAt(innerWidth / 2, innerHeight / 2); el; el = flatParent(el)) if (computed(el).position === 'fixed') cover = el;
    if (!cover) return notes;
    const { width, height } = boundingBox(cover);
    // An application whose shell is fixed is not covered by it: a cover holds only a little of the text.
    const little = textContent(cover).length * 2 < textContent(documentElement(document)).length;
    return little && width * height > 0.5 * innerWidth * innerHeight ? [tell(cover, 'most of the view is covered by')] : notes;
  }

  /** The visible text as a person reads it: {lines, frames}. */
  function plainText(start) {
    const [lines, frames] = [[], []];
    let run = '';
    const sink = {
      text: (data, asIs) => (run += asIs ? data.replaceAll('\n', '\ufdd1').replaceAll('\t', CELL_GAP).replaceAll(' ', '\ufdd2') : data),
      gap(kind) {
        if (kind !== '\n') return void (run += kind);
        for (const part of collapse(run).split('\ufdd1')) {
          const line = clean(part.replace(/ ?\ufdd0[ \ufdd0]*/g, '\ufdd0').replace(/^ *\ufdd0|\ufdd0$/g, ''));
          if (line.trim()) lines.push(line.replaceAll('\ufdd2', ' ').replaceAll(CELL_GAP, '\t').trimEnd());
        }
        run = '';
      },
      frame(el) {
        this.gap('\n');
        frames.push({ ref: refOf(el), line: lines.length, indent: 0 });
      },
    };
    gather(start, sink);
    sink.gap('\n');
    return { lines, frames };
  }

  function hashOf(text) {
    let hash = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
    return (hash >>> 0).toString(36);
  }
  /**
   * read({mode: 'outline'|'text', interactive_only, links, max_chars, cursor, root}) →
   * {status: 'ok', text, cursor, changed, total_chars, omitted, url, title, frames: [{ref, line, indent}]}, or as `resolve`.
   * Pages join to the whole text. `changed`: the document is no longer what the cursor's page came from.
   * A frame's own outline belongs after the first `line` lines of `text`, indented by `indent`.
   * interactive_only keeps what acts, headings, named containers, and in rows the text that they begin with.
   */
  function read({ mode = 'outline', interactive_only = false, links = false, max_chars = 20000, cursor = null, root = null } = {}) {
    prune();
    const { el: start, ...stale } = root ? lookUp(root) : { el: documentElement(document) };
    if (root && !start) return stale;
    let [lines, frames, omitted] = [[], [], 0];
    if (start && mode === 'text') {
      const plain = plainText(start);
      [lines, frames] = [plain.lines.map((text) => ({ text, node: null })), plain.frames];
    } else if (start) {
      const tree = withLabels(() => outline(start, { interactive: interactive_only, links, focus: activeElement() }));
      lines = print(tree.kids, root ? [] : coverNotes());
      omitted = tree.omitted;
      lines.forEach(({ node, indent }, i) => node?.role === 'iframe' && frames.push({ ref: refOf(node.el), line: i + 1, indent: indent + 1 }));
    }
    const whole = lines.map((line) => line.text).join('\n');
    const [, from = '0', hash = ''] = /^(\d+)\.(\w+)$/.exec(cursor ?? '') ?? [];
    const begin = Math.min(Number(from), whole.length);
    let end = whole.length;
    if (end - begin > max_chars) {
      end = whole.lastIndexOf('\n', begin + max_chars - 1) + 1;
      if (end <= begin) end = begin + cut(whole.slice(begin, begin + max_chars + 1), max_chars).length;
    }
    const text = whole.slice(begin, end);
    const mark = hash || end < whole.length ? hashOf(whole) : '';
    // The agent knows only what this page of the outline shows, so only that gets a new fingerprint.
    const cache = new Map();
    const starts = [0];
    for (const { node, text: line } of lines) {
      const at = starts.at(-1);
      starts.push(Math.min(at + line.length + 1, whole.length));
      if (node && (node.active || node.kind === AREA) && at < end && at + line.length > begin)
        prints.set(refOf(node.el), fingerprint(node.el, node.tag, node.role, node.name, cache));
    }
    // A frame goes with the page that ends the line before it.
    const here = frames.filter(({ line }) => (starts[line] > begin || begin === 0) && starts[line] <= end);
    const linesTo = (at) => (at > begin ? whole.slice(begin, at).split('\n').length - (at === whole.length ? 0 : 1) : 0);
    return {
      status: 'ok', text, cursor: end < whole.length ? `${end}.${mark}` : null, changed: hash !== '' && hash !== mark,
      total_chars: whole.length, omitted, url: location.href, title: short(collapse(documentTitle(document)), 300),
      frames: here.map((frame) => ({ ...frame, line: linesTo(starts[frame.line]) })),
    };
  }

  // ---- finding the point to act on ----

  /** The element at or above `el` that would take a click. */
  function actor(el) {
    for (let node = el; node; node = flatParent(node)) if (acts(node, localName(node)) || (localName(node) === 'label' && node.control)) return node;
    return el;
  }
  const controlOf = (el) => closest(el, 'label')?.control ?? null;
  /** A hit reaches `el` when it lies in it, but (for a click) not in something else inside it that acts; or in its label. */
  function reaches(hit, el, strict) {
    const at = actor(hit);
    const viaLabel = controlOf(hit) === el && (at === el || localName(at) === 'label');
    return viaLabel || (within(hit, el) && (!strict || at === el || !within(at, el)));
  }
  function areas(el) {
    const large = ({ width, height }) => width >= 1 && height >= 1;
    const own = [...clientRects(el)].filter(large);
    if (own.length) return own;
    // An inline link around a block, or `display: contents`: what it holds has boxes.
    const range = createRange(document);
    range.selectNodeContents(el);
    return [...range.getClientRects()].filter(large);
  }
  const SPOTS = [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.1, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.9]];
  /** {point} that really hits `el`, or {by}: what covers it, null when it is outside the view. */
  function aim(el, strict) {
    let by = null;
    for (const rect of areas(el).sort((a, b) => b.width * b.height - a.width * a.height).slice(0, 6)) {
      const [left, top] = [Math.max(rect.left, 0), Math.max(rect.top, 0)];
      const [width, height] = [Math.min(rect.right, innerWidth) - left, Math.min(rect.bottom, innerHeight) - top];
      for (const [u, v] of width < 1 || height < 1 ? [] : SPOTS) {
        const point = { x: left + width * u, y: top + height * v };
        const hit = hitAt(point.x, point.y);
        if (hit && reaches(hit, el, strict)) return { point };
        by ??= hit;
      }
    }
    return { by };
  }
  function isInert(el) {
    for (let node = el; node; node = flatParent(node)) if (hasAttr(node, 'inert')) return true;
    return false;
  }
  // Two frames' time for what answers to scrolling. In a hidden tab nothing moves, and timers are slow.
  const settle = () => (isHidden(document) ? null : new Promise((done) => setTimeout(done, 32)));

  function pick({ ref, selector, point }) {
    if (ref) return lookUp(ref);
    let found = point ? [hitAt(point.x, point.y)].filter(Boolean).map(actor) : [];
    try {
      if (selector !== undefined) found = queryAll(selector);
    } catch {
      return { status: 'bad_selector' };
    }
    const visible = found.length > 1 ? found.filter(isVisible) : [];
    if (visible.length) found = visible;
    if (found.length > 1) return { status: 'ambiguous', count: found.length, candidates: found.slice(0, 5).map((el) => introduce(el)) };
    return found.length ? { status: 'ok', el: found[0] } : { status: 'gone' };
  }
  /**
   * locate({ref | selector | point: {x, y}, for: 'click'|'type'|'hover'|'read'}) →
   * {status: 'ok', ref, tag, role, name, context, x, y, box, editable, scrolled}: viewport CSS pixels of this frame, at a point
   * that a hit test says reaches the element. Otherwise {status} with what is known:
   * moved|replaced|gone|unknown as `resolve`, ambiguous {count, candidates}, bad_selector, invisible, disabled,
   * covered {by}, guarded {guard}. A selector that matches one visible element among hidden ones means that one.
   */
  async function locate({ for: purpose = 'click', ...how } = {}) {
    const { el, ...found } = pick(how);
    if (found.status !== 'ok') return found;
    const tag = localName(el);
    const print = currentPrint(el);
    const self = introduce(el, print);
    const acting = purpose === 'click' || purpose === 'type';
    if (acting && (isDisabled(el) || isInert(el))) return { status: 'disabled', ...self };
    const guard = purpose === 'type' && guarded(el, tag);
    if (guard) return { status: 'guarded', ...self, guard };
    // Styled checkboxes and file fields hide the input and show its label: there a person clicks.
    const label = isBox(el, tag) || (tag === 'input' && el.type === 'file') ? labelsOf(el).find(isVisible) : null;
    const shows = (node) => node && areas(node).length > 0 && (isVisible(node) || computed(node).display === 'contents');
    let [by, scrolled] = [null, false];
    for (const place of [el, label].filter(shows)) {
      for (const block of purpose === 'read' ? ['center'] : [null, 'center', 'end', 'start']) {
        if (block) {
          scrollIntoView(place, { block, inline: 'nearest', behavior: 'instant' });
          scrolled = true;
          await settle();
          // A list that renders what is in view may have put the node to another use.
          const now = currentPrint(el);
          const why = changes(print, now);
          if (!isConnected(el)) return { status: 'gone', was: shownPrint(print) };
          if (why.length) return { status: 'moved', was: shownPrint(print), now: { ref: self.ref, ...shownPrint(now) }, why };
        }
        const { x, y, width, height } = boundingBox(place);
        const { point, by: other } = purpose === 'read' ? { point: { x: x + width / 2, y: y + height / 2 } } : aim(place, purpose === 'click');
        if (point) return { status: 'ok', ...self, ...point, box: { x, y, width, height }, editable: isEditable(el, tag), scrolled };
        by ??= block && other;
      }
    }
    return by ? { status: 'covered', ...self, by: introduce(actor(by)) } : { status: 'invisible', ...self };
  }

  // ---- fields ----

  const TEXTLESS = /^(button|checkbox|radio|submit|reset|image|file|range|color|hidden)$/;
  function isEditable(el, tag) {
    if (tag === 'textarea' || (tag === 'input' && !TEXTLESS.test(el.type))) return !el.readOnly && !isDisabled(el);
    return el.isContentEditable === true;
  }
  function contentOf(el, tag, max) {
    const guard = guarded(el, tag);
    const field = tag === 'input' || tag === 'textarea' || tag === 'select';
    const text = field ? el.value : el.isContentEditable === true ? plainText(el).lines.join('\n') : contentText(el).text;
    const href = attr(el, 'href');
    return {
      guarded: guard,
      value: guard ? null : cut(text, max),
      length: guard ? null : text.length,
      checked: isBox(el, tag) ? el.checked : hasAttr(el, 'aria-checked') ? truthy(el, 'aria-checked') : null,
      selected: tag === 'select' ? [...el.selectedOptions].map((option) => short(collapse(option.label))) : null,
      files: tag === 'input' && el.type === 'file' ? [...el.files].map((file) => file.name) : null,
      href: href && cut(href, max),
    };
  }
  /** value({ref, max_chars}) → {status, guarded, value, length, checked, selected, files, href}. Guarded values are null. */
  function value({ ref, max_chars = 2000 } = {}) {
    const { el, ...found } = lookUp(ref);
    return found.status === 'ok' ? { status: 'ok', ...contentOf(el, localName(el), max_chars) } : found;
  }
  /** focused({max_chars}) → what has the keyboard: {kind, ref, role, name, editable, content, selection: {start, end, text}}. */
  function focused({ max_chars = 2000 } = {}) {
    let el = activeElement();
    if (!el || el === bodyOf(document) || el === documentElement(document)) return { kind: 'none', editable: false };
    for (let up = flatParent(el); el.isContentEditable === true && up?.isContentEditable === true; up = flatParent(up)) el = up;
    const tag = localName(el);
    const native = /^(input|textarea|select|button)$/.test(tag);
    const kind = native ? tag : tag === 'iframe' || tag === 'frame' ? 'frame' : el.isContentEditable === true ? 'contenteditable' : 'other';
    const content = kind === 'frame' ? null : contentOf(el, tag, max_chars);
    let selection = null;
    if (content && !content.guarded) {
      if (kind === 'contenteditable') selection = { start: null, end: null, text: cut(String(getSelection()), max_chars) };
      const { selectionStart: start, selectionEnd: end } = native ? el : {};
      if (typeof start === 'number') selection = { start, end, text: cut(el.value.slice(start, end), max_chars) };
    }
    return { kind, ...introduce(el), editable: isEditable(el, tag), content, selection };
  }
  /** focus({ref, select: 'none'|'all'|'end'}) → {status, focused}; false when the element does not take the keyboard. */
  function focus({ ref, select = 'none' } = {}) {
    const { el, ...found } = lookUp(ref);
    if (found.status !== 'ok') return found;
    (el instanceof HTMLElement ? HTMLElement : SVGElement).prototype.focus.call(el);
    const tag = localName(el);
    if (select !== 'none' && isEditable(el, tag)) {
      if (tag !== 'input' && tag !== 'textarea') {
        getSelection().selectAllChildren(el);
        if (select === 'end') getSelection().collapseToEnd();
      } else if (select === 'all') el.select();
      else if (el.selectionStart !== null) el.setSelectionRange(el.value.length, el.value.length);
    }
    const active = activeElement();
    return { status: 'ok', focused: active !== null && within(active, el) };
  }

  // ---- waiting ----

  function observeAll(observer) {
    for (const root of roots()) observer.observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
  }
  /** The element whose own text holds `needle`, for a ref; text that is split over elements has none. */
  function holderOf(needle) {
    for (const root of roots()) {
      const walker = createWalker(document, root, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const parent = parentNode(node);
        if (parent instanceof Element && collapse(node.data).includes(needle) && isVisible(parent)) return parent;
      }
    }
    return null;
  }
  /**
   * wait({text | selector | ref | url, gone, timeout_ms}) → promise of {found, ref?, waited_ms, error?}. `text` is looked for in
   * the visible text, `selector` and `ref` among visible elements, `url` as a part of the address. `gone` waits for the opposite.
   */
  function wait({ text, selector, ref, url, gone = false, timeout_ms = 10000 } = {}) {
    const needle = collapse(text ?? '');
    function seek() {
      if (url !== undefined) return location.href.includes(url);
      if (selector !== undefined) return queryAll(selector).find(isVisible);
      if (ref === undefined) return collapse(plainText(documentElement(document)).lines.join(' ')).includes(needle) && (holderOf(needle) ?? true);
      const el = nodes.get(ref)?.deref();
      return el && isConnected(el) && isVisible(el) && el;
    }
    return new Promise((done) => {
      const began = performance.now();
      let [next, timer] = [0, 0];
      function check() {
        const now = performance.now();
        let [hit, error] = [null, null];
        try {
          hit = seek();
        } catch (problem) {
          error = short(String(problem.message));
        }
        timer = 0;
        // A busy page mutates all the time: looking takes at most a sixth of it.
        next = now + Math.max(30, 6 * (performance.now() - now));
        const found = error === null && Boolean(hit) !== gone;
        if (!found && error === null && now - began < timeout_ms) return;
        observer.disconnect();
        clearInterval(interval);
        done({ found, ref: found && hit instanceof Element ? introduce(hit).ref : null, waited_ms: Math.round(performance.now() - began), error });
      }
      const soon = () => (timer ||= setTimeout(check, Math.max(0, next - performance.now())));
      const observer = new MutationObserver(soon);
      observeAll(observer);
      // Styles and addresses change without a mutation.
      const interval = setInterval(soon, 100);
      check();
    });
  }

  // ---- what an action did ----

  const WATCHED = ['pointerdown', 'mousedown', 'click', 'keydown', 'input', 'change', 'submit', 'focusin', 'scroll', 'toggle', 'pagehide'];
  const dialogs = () => queryAll('dialog[open],:popover-open,[role=dialog],[role=alertdialog]').filter(isVisible).length;
  const stateOf = (el) => states(el, localName(el)) + (/^(input|textarea|select)$/.test(localName(el)) ? ` ${el.value}` : '');
  let stopWatching = null;

  /** observe({ref}) starts to watch what an action on `ref` does; `observed()` ends it. */
  function observe({ ref } = {}) {
    stopWatching?.();
    const el = nodes.get(ref)?.deref() ?? null;
    const near = el && (contextOf(el, new Map()).row ?? el);
    const before = { url: location.href, active: activeElement(), dialogs: dialogs(), state: el && stateOf(el) };
    const seen = { mutations: 0, target_mutations: 0, scroll_changed: false, navigating: null, events: [], dropped_events: 0 };
    function onEvent(event) {
      if (event.type === 'scroll') return void (seen.scroll_changed = true);
      if (seen.events.length >= 50) return void seen.dropped_events++;
      const hit = event.composedPath()[0];
      const isElement = hit instanceof Element;
      // From outside, an event in a closed root is one on its host.
      const on_target = isElement && el !== null && (within(hit, el) || controlOf(hit) === el || (adopted.has(hit) && within(el, hit)));
      seen.events.push({ type: event.type, target_ref: isElement ? refOf(hit) : null, on_target, trusted: event.isTrusted });
    }
    const onNavigate = (event) => (seen.navigating = cut(String(event.destination?.url ?? ''), 2000));
    function count(records) {
      seen.mutations += records.length;
      if (near) seen.target_mutations += records.filter((record) => contains(near, record.target)).length;
    }
    const observer = new MutationObserver(count);
    observeAll(observer);
    for (const type of WATCHED) addEventListener(type, onEvent, { capture: true, passive: true });
    globalThis.navigation?.addEventListener('navigate', onNavigate);
    stopWatching = () => {
      count(observer.takeRecords());
      observer.disconnect();
      for (const type of WATCHED) removeEventListener(type, onEvent, { capture: true });
      globalThis.navigation?.removeEventListener('navigate', onNavigate);
      stopWatching = null;
      return {
        ...seen, url: location.href, url_changed: location.href !== before.url, focus_changed: activeElement() !== before.active,
        dialogs_opened: dialogs() - before.dialogs, connected: el === null || isConnected(el),
        state_changed: el !== null && isConnected(el) && stateOf(el) !== before.state,
      };
    };
    return { watching: true };
  }
  /**
   * observed() → null, or {mutations, target_mutations, state_changed, connected, focus_changed, scroll_changed, url, url_changed,
   * dialogs_opened, navigating, events: [{type, target_ref, on_target, trusted}], dropped_events}.
   * `target_mutations` are those in the target's row, `state_changed` compares its value, checked, expanded… without telling
   * them. A page whose own capture listener stops an event at once hides it: no event does not prove that none arrived.
   */
  const observed = () => stopWatching?.() ?? null;

  // ---- the rest of the interface ----

  /** resolve({ref, refresh}) → {status: ok|moved|replaced|gone|unknown, was, now, why}. `refresh` when the agent is shown `now`. */
  function resolve({ ref, refresh = false } = {}) {
    const { el, ...answer } = lookUp(ref, refresh);
    return answer;
  }
  /** element({ref}) → the node, to be asked for as a remote object (DOM.describeNode, the id of a frame, files), or null. */
  function element({ ref } = {}) {
    const el = nodes.get(ref)?.deref();
    return el && isConnected(el) ? el : null;
  }
  const MAY_HOST = 'article,aside,blockquote,div,footer,header,main,nav,p,section,span'.replace(/\w+/g, '$&:empty');
  /** hosts({max}) → {refs}: elements that may hide a closed shadow root: custom elements, and empty ones that take up space. */
  function hosts({ max = 100 } = {}) {
    const custom = queryAll('*').filter((el) => localName(el).includes('-'));
    const may = (el) => !shadowOf(el) && boundingBox(el).height > 0;
    return { refs: [...custom, ...queryAll(MAY_HOST)].filter(may).slice(0, max).map(refOf) };
  }
  /** adopt(root) takes in a closed shadow root, passed by Runtime.callFunctionOn; it is then read like an open one. */
  function adopt(root) {
    if (!(root instanceof ShadowRoot)) return false;
    adopted.set(root.host, root);
    adoptedAny = true;
    return true;
  }

  const api = Object.freeze({ read, resolve, locate, value, focused, focus, wait, observe, observed, element, hosts, adopt });
  Object.defineProperty(globalThis, '__consentry', { value: api });
})();
