"""Tests the console in a real browser, as operators use it.

`make console` runs it: login, every view, a lock that is taken, waited for and broken, a breaker that trips and is
forced, outages of Redis and of the sidecar, names that contain markup, a phone, the keyboard, and axe's accessibility
rules, in light and dark. `--draw FOLDER` draws the pictures of the documents instead, which takes six minutes:
see console_scene.py.
"""

import argparse
import contextlib
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import console_scene
from servers import HTTP, PATIENCE, REDIS, RESP, UPSTREAM, Connection, Failure, World, free_ports

#: The browser's path on Debian and on other systems.
BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
#: The largest allowed size of the page, in bytes.
LARGEST = 150_000
#: The name of a lock that an attacker might choose.
MARKUP = "<img/src=x/onerror=document.title='taken'>"
CONFIGURATION = f"""
auth:
  keys:
    - {{ name: web, key_env: WEB_KEY, role: use }}
    - {{ name: ops, key_env: OPS_KEY, role: admin }}
services:
  search:
    url: "http://127.0.0.1:{UPSTREAM}"
    concurrency: 20
    probe: {{ path: /, every: 1s, timeout: 500ms }}
    limits:
      - {{ limit: 20, per: 1s }}
      - {{ limit: 500, per: 1m }}
    breaker: {{ failure_rate: 50%, window: 10s, minimum_calls: 5, open_for: 60s..60s }}
  mail:
    limits:
      - {{ limit: 5, per: 1s }}
rate_limits:
  edge:
    descriptors:
      - {{ key: remote_address, limit: 5, per: 1s, algorithm: sliding }}
      - {{ key: path, value: "{MARKUP}", limit: 0 }}
"""


class Visitor:
    """A user of the console. Records the page's messages and requests, and fails on unexpected ones."""

    def __init__(self, browser: Browser, world: World, **settings: object) -> None:
        self.base = f"http://127.0.0.1:{world.ports[HTTP]}"
        self.context: BrowserContext = browser.new_context(**settings)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.troubles: list[str] = []
        self.foreign: list[str] = []
        self.are_expected = False
        self.page.on("console", lambda message: self.said(message.type, message.text))
        self.page.on("pageerror", lambda error: self.said("error", str(error)))
        self.page.on("request", lambda request: self.asked(request.url))

    def said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not self.are_expected:
            self.troubles.append(f"{kind}: {text}")

    def asked(self, url: str) -> None:
        if not url.startswith((self.base + "/", "data:")):
            self.foreign.append(url)

    @contextlib.contextmanager
    def expecting_troubles(self) -> Iterator[None]:
        """Ignores the messages of the browser itself about error responses and unreachable servers."""
        self.are_expected = True
        yield
        self.are_expected = False

    def enter(self, key: str) -> None:
        self.page.goto(f"{self.base}/console")
        self.page.get_by_label("Key", exact=True).fill(key)
        self.page.get_by_role("button", name="Log in").click()
        self.shows("#link-text", "live")

    def go(self, view: str) -> None:
        self.page.evaluate("(view) => { location.hash = '#/' + view }", view)

    def shows(self, selector: str, text: str | re.Pattern[str]) -> None:
        expect(self.page.locator(selector).first).to_contain_text(text, timeout=PATIENCE * 1000)

    def shows_not(self, selector: str, text: str) -> None:
        expect(self.page.locator(selector).first).not_to_contain_text(text, timeout=PATIENCE * 1000)

    def time_until(self, text: str, act: Callable[[], object]) -> float:
        """Returns the time from the reply to an action until the page shows a text, in milliseconds."""
        self.page.evaluate(
            """([text, patience]) => {
                 const end = Date.now() + patience;
                 window.seenAt_ = new Promise((resolve, reject) => {
                   const look = () => {
                     if (document.getElementById("main").textContent.includes(text)) resolve(Date.now());
                     else if (Date.now() > end) reject(new Error(`not seen: ${text}`));
                     else requestAnimationFrame(look);
                   };
                   look();
                 });
               }""",
            [text, PATIENCE * 1000],
        )
        act()
        done = time.time() * 1000
        return max(0.0, float(self.page.evaluate("window.seenAt_")) - done)

    def check_access(self, where: str) -> None:
        found = Axe().run(self.page)
        if found.violations_count:
            raise Failure(f"axe found violations on {where}: {found.generate_report()}")

    def close(self) -> None:
        self.context.close()
        if self.troubles:
            raise Failure(f"the page logged errors: {self.troubles}")
        if self.foreign:
            raise Failure(f"the page sent requests to other hosts: {self.foreign}")


class Check:
    """One run through all views."""

    def __init__(self, world: World, browser: Browser) -> None:
        self.world = world
        self.browser = browser
        self.keys = {name: world.environment[f"{name.upper()}_KEY"] for name in ("web", "ops")}
        self.here = Connection(world.ports[RESP], self.keys["web"])
        self.elsewhere = Connection(self.start_other(), self.keys["web"])

    def start_other(self) -> int:
        """Starts a second sidecar of the same fleet."""
        resp, http = free_ports(2)
        world = self.world
        # fmt: off
        world.start(
            str(world.binary), "serve", "--config", str(world.folder / "console.yaml"),
            "--redis", f"redis://127.0.0.1:{world.ports[REDIS]}",
            "--resp", f"127.0.0.1:{resp}", "--http", f"127.0.0.1:{http}",
        )
        # fmt: on
        address = f"http://127.0.0.1:{http}/readyz"
        world.until("the second sidecar is ready", lambda: answers(address))
        return resp

    def run(self) -> None:
        self.weigh()
        ops = Visitor(self.browser, self.world, viewport={"width": 1200, "height": 900}, color_scheme="light")
        self.log_in(ops)
        self.overview(ops)
        self.locks(ops)
        self.queue_and_break(ops)
        self.another_holder(ops)
        self.held_elsewhere(ops)
        self.breaker(ops)
        self.lists(ops)
        self.check_all_views(ops)
        self.keyboard(ops)
        self.redis_away(ops)
        self.strange_neighbors(ops)
        self.sidecar_away(ops)
        ops.close()
        self.role_use()
        self.hidden()
        self.phone()

    def weigh(self) -> None:
        address = f"http://127.0.0.1:{self.world.ports[HTTP]}/console"
        with urllib.request.urlopen(address) as answer:
            size = len(answer.read())
        print(f"console: the page has {size:,} of at most {LARGEST:,} bytes")
        if size > LARGEST:
            raise Failure("the page is too large")

    def log_in(self, ops: Visitor) -> None:
        ops.page.goto(f"{ops.base}/console")
        expect(ops.page.get_by_role("dialog", name="API key")).to_be_visible()
        ops.check_access("the login")
        with ops.expecting_troubles():
            ops.page.get_by_label("Key", exact=True).fill("none")
            ops.page.get_by_role("button", name="Log in").click()
            ops.shows("#login-text", "Invalid API key")
        began = time.monotonic()
        ops.enter(self.keys["ops"])
        ops.shows("main", "Locks held here")
        expect(ops.page.locator(".cards dd").first).not_to_be_empty()
        print(f"console: loaded, logged in and showed its first view after {(time.monotonic() - began) * 1000:.0f} ms")
        ops.shows("#who", "as ops (admin)")

    def overview(self, ops: Visitor) -> None:
        ops.shows("main", "redis://")
        ops.shows("main", "(this one)")
        expect(ops.page.locator("section", has_text="Fleet").locator("tbody tr")).to_have_count(2)
        expect(ops.page.locator("figure svg")).to_have_count(4)
        ops.shows("#attention", "Nothing needs attention")

    def locks(self, ops: Visitor) -> None:
        ops.go("locks?search=nothing-like-it")
        ops.shows("main", "No matching locks are held")
        ops.go("locks")
        delay = ops.time_until(MARKUP, lambda: self.here.call("LOCK.ACQUIRE", MARKUP, 60_000, "LABEL", "<b>bold</b>"))
        print(f"console: a lock granted by this sidecar appears after {delay:.0f} ms")
        ops.shows("main", "<b>bold</b>")
        if ops.page.locator("main img, main b").count() or ops.page.title().startswith("taken"):
            raise Failure("a lock's name became markup")
        self.here.call("LOCK.ACQUIRE", "orders/7", 60_000, "LABEL", "worker-3")
        ops.page.get_by_label("Name contains").fill("orders/")
        expect(ops.page.locator("tbody tr")).to_have_count(1)
        expect(ops.page.get_by_label("Name contains")).to_be_focused()
        ops.shows("tbody", "worker-3")
        ops.page.get_by_role("link", name="orders/7").click()
        ops.shows("h1", "Lock orders/7")
        ops.shows("main", "Nobody is waiting")

    def queue_and_break(self, ops: Visitor) -> None:
        waiter = Connection(self.world.ports[RESP], self.keys["web"])
        waiter.send("LOCK.ACQUIRE", "orders/7", 60_000, "WAIT", 60_000, "LABEL", "worker-4")
        waiting = ops.page.locator("section", has_text="Queue").locator("tbody tr")
        # The other sidecar's caller must come later in the queue.
        expect(waiting).to_have_count(1)
        distant = Connection(self.other_port, self.keys["web"])
        distant.send("LOCK.ACQUIRE", "orders/7", 60_000, "WAIT", 60_000, "LABEL", "worker-9")
        expect(waiting).to_have_count(2)
        ops.page.get_by_role("button", name="Break lock …").click()
        expect(ops.page.get_by_role("dialog", name="Break the lock orders/7?")).to_be_visible()
        ops.check_access("a dialog")
        ops.page.get_by_role("button", name="Cancel").click()
        ops.shows("section", "worker-3")
        ops.page.get_by_role("button", name="Break lock …").click()
        ops.page.get_by_role("button", name="Break lock", exact=True).click()
        ops.shows("#toast", "was broken")
        if not isinstance(waiter.answer(), list):
            raise Failure("the waiter did not get the broken lock")
        ops.shows("section", "worker-4")
        ops.shows("main", "lost")
        ops.go("events")
        ops.shows("tbody", "lock orders/7: broken by ops")

    def another_holder(self, ops: Visitor) -> None:
        """The dialog does not apply to a holder that took the lock while it was open."""
        grant = self.here.call("LOCK.ACQUIRE", "orders/9", 60_000, "LABEL", "worker-10")
        assert isinstance(grant, list)
        ops.go("lock/orders%2F9")
        ops.shows("section", "worker-10")
        ops.page.get_by_role("button", name="Break lock …").click()
        self.here.call("LOCK.RELEASE", "orders/9", grant[0])
        self.here.call("LOCK.ACQUIRE", "orders/9", 60_000, "LABEL", "worker-11")
        # The page may or may not know the new holder yet.
        with ops.expecting_troubles():
            ops.page.get_by_role("button", name="Break lock", exact=True).click()
            ops.shows("#toast", "is no longer held with the fence")
        ops.shows("section", "worker-11")
        ops.page.get_by_role("button", name="Break lock …").click()
        expect(ops.page.get_by_role("dialog")).to_contain_text("worker-11")
        ops.page.get_by_role("button", name="Break lock", exact=True).click()
        ops.shows("#toast", "was broken")

    @property
    def other_port(self) -> int:
        return int(self.elsewhere.socket.getpeername()[1])

    def held_elsewhere(self, ops: Visitor) -> None:
        ops.go("lock/imports")
        ops.shows("main", "Nobody holds this lock")
        delay = ops.time_until(
            "nightly", lambda: self.elsewhere.call("LOCK.ACQUIRE", "imports", 60_000, "LABEL", "nightly")
        )
        print(f"console: the view of a lock granted by another sidecar is updated after {delay:.0f} ms")
        ops.go("locks")
        ops.shows("tbody", "imports")
        delay = ops.time_until("elsewhere-2", lambda: self.elsewhere.call("LOCK.ACQUIRE", "elsewhere-2", 60_000))
        print(f"console: a lock granted by another sidecar is listed after {delay:.0f} ms")

    def breaker(self, ops: Visitor) -> None:
        ops.go("service/search")
        ops.shows("dl.facts", "closed")
        for _ in range(25):
            self.here.call("LIMIT.TAKE", "search")
        ops.shows("main", re.compile(r"[1-9]\d* of 500"))
        ops.shows("dl.facts", "good")
        for _ in range(8):
            permit = self.here.call("PERMIT.ACQUIRE", "mail")
            assert isinstance(permit, list)
        self.world.happen("upstream", "down")
        ops.shows("dl.facts", "open")
        ops.shows("section:has-text('Breaker history') tbody", "open")
        ops.go("")
        ops.shows("#attention", "Needs attention")
        ops.shows("#attention tbody", "search")
        ops.go("service/search")
        self.world.happen("upstream", "up")
        ops.shows("dl.facts", "closed")
        ops.page.get_by_label("Minutes").fill("5")
        ops.page.get_by_label("Reason").fill("maintenance <i>until noon</i>")
        ops.page.get_by_role("button", name="Force …").click()
        ops.page.get_by_role("button", name="Force breaker").click()
        ops.shows("#toast", "is forced open")
        ops.shows("dl.facts", "maintenance <i>until noon</i>")
        ops.page.get_by_role("button", name="Back to automatic").click()
        ops.page.get_by_role("dialog").get_by_role("button", name="Back to automatic").click()
        ops.shows("dl.facts", "closed")
        ops.shows_not("dl.facts", "maintenance")

    def lists(self, ops: Visitor) -> None:
        ops.go("services")
        expect(ops.page.locator("tbody tr")).to_have_count(2)
        ops.page.get_by_label("Name contains").fill("mail")
        expect(ops.page.locator("tbody tr")).to_have_count(1)
        ops.go("domains")
        ops.shows("tbody", "sliding")
        ops.shows("tbody", "blocks everything")
        ops.shows("tbody", MARKUP)
        ops.go("grants")
        ops.shows("tbody", "worker-4")
        ops.go("events")
        ops.shows("tbody", "forced open")

    def check_all_views(self, ops: Visitor) -> None:
        """Checks the accessibility of each view in both color schemes."""
        for scheme in ("light", "dark"):
            ops.page.emulate_media(color_scheme=scheme)
            for view in ("", "locks", "lock/orders%2F7", "services", "service/search", "domains", "grants", "events"):
                ops.go(view)
                expect(ops.page.locator("#main h1")).to_be_visible()
                ops.check_access(f"{view or 'overview'} in {scheme}")
        ops.page.emulate_media(color_scheme="light")
        ops.go("")
        ops.shows("main", "(this one)")

    def keyboard(self, ops: Visitor) -> None:
        ops.page.reload()
        ops.shows("#link-text", "live")
        ops.page.keyboard.press("Tab")
        expect(ops.page.get_by_text("Skip to content")).to_be_focused()
        ops.page.keyboard.press("Enter")
        expect(ops.page.locator("#main")).to_be_focused()
        ops.shows("h1", "Overview")
        ops.page.get_by_role("link", name="Overview", exact=True).focus()
        ops.page.keyboard.press("Tab")
        expect(ops.page.get_by_role("link", name="Locks", exact=True)).to_be_focused()
        ops.page.keyboard.press("Enter")
        ops.shows("h1", "Locks")
        expect(ops.page.locator("#main")).to_be_focused()
        expect(ops.page.locator("tbody tr").first).to_be_visible()
        for _ in range(3):
            ops.page.keyboard.press("Tab")
        expect(ops.page.locator("tbody a").first).to_be_focused()
        # New rows do not take the focus away.
        self.here.call("LOCK.ACQUIRE", "zebra", 60_000)
        ops.shows("tbody", "zebra")
        expect(ops.page.locator("tbody a").first).to_be_focused()

    def redis_away(self, ops: Visitor) -> None:
        ops.go("")
        with ops.expecting_troubles():
            self.world.happen("redis", "away")
            ops.shows("#trouble", "cannot reach Redis")
            ops.shows("#link-text", "Redis is unreachable")
            # A lock that was never read is not shown as free.
            ops.go("lock/never-seen")
            ops.shows("dl.facts", "unknown")
            ops.shows_not("main", "Nobody holds this lock.")
            ops.go("")
            self.world.happen("redis", "back")
            expect(ops.page.locator("#trouble")).to_be_hidden(timeout=PATIENCE * 1000)
        ops.shows("#link-text", "live")

    def strange_neighbors(self, ops: Visitor) -> None:
        """Tests other keys in the same Redis, and events that no sidecar would publish."""
        redis = Connection(self.world.ports[REDIS])
        for number in range(20_000):
            redis.send("SET", f"other:{number}", "1")
        for _ in range(20_000):
            redis.answer()
        self.here.call("LOCK.ACQUIRE", "among-others", 60_000)
        ops.go("locks")
        ops.shows("main", "among-others")
        event = '{"v":1,"type":"x.new","origin":"o","db":0,"at_ms":9000000000000000000}'
        redis.call("PUBLISH", "interlock:events", event[:-1] + ',"x":"\\q"}')
        ops.go("events")
        rows = ops.page.locator("tbody").first

        def is_shown() -> bool:
            # Redis was unreachable, so the sidecar may not have subscribed again yet.
            redis.call("PUBLISH", "interlock:events", event[:-1] + ",}")
            redis.call("PUBLISH", "interlock:events", event)
            return "9999-12-31" in rows.inner_text()

        self.world.until("an event in the distant future is on the page", is_shown)

    def sidecar_away(self, ops: Visitor) -> None:
        before = ops.page.locator("#link-text").inner_text()
        with ops.expecting_troubles():
            assert self.world.sidecar
            self.world.stop(self.world.sidecar)
            self.world.sidecar = None
            ops.shows("#trouble", "trying again")
            self.world.start_sidecar(self.world.folder / "console.yaml")
            ops.shows("#link-text", "live")
        expect(ops.page.locator("#trouble")).to_be_hidden()
        if ops.page.locator("#link-text").inner_text() == before:
            raise Failure("the page did not notice that the sidecar was replaced")

    def role_use(self) -> None:
        web = Visitor(self.browser, self.world)
        web.enter(self.keys["web"])
        self.elsewhere.call("LOCK.ACQUIRE", "orders/8", 60_000, "LABEL", "worker-5")
        web.go("lock/orders%2F8")
        web.shows("section", "worker-5")
        expect(web.page.get_by_role("button", name="Break lock …")).to_be_hidden()
        web.go("service/search")
        web.shows("dl.facts", "closed")
        expect(web.page.get_by_role("button", name="Force …")).to_be_hidden()
        web.page.get_by_role("button", name="Forget key").click()
        expect(web.page.get_by_role("dialog", name="API key")).to_be_visible()
        web.close()

    def hidden(self) -> None:
        """A tab opened in the background requests nothing until it is visible."""
        web = Visitor(self.browser, self.world)
        web.page.add_init_script(
            "window.isHidden_ = true; Object.defineProperty(document, 'hidden', { get: () => window.isHidden_ });"
            f"sessionStorage.setItem('interlock-key', '{self.keys['web']}');"
        )
        asked: list[str] = []
        web.page.on("request", lambda request: asked.append(request.url))
        web.page.goto(f"{web.base}/console")
        show = "(hidden) => { window.isHidden_ = hidden; document.dispatchEvent(new Event('visibilitychange')); }"
        if any("/v1/live" in url for url in asked):
            raise Failure("a hidden page follows the sidecar")
        web.page.evaluate(show, False)
        web.shows("#link-text", "live")
        web.page.evaluate(show, True)
        web.shows("#link-text", "connecting")
        web.page.evaluate(show, False)
        web.shows("#link-text", "live")
        web.close()

    def phone(self) -> None:
        phone = Visitor(
            self.browser,
            self.world,
            viewport={"width": 390, "height": 844},
            is_mobile=True,
            has_touch=True,
            color_scheme="dark",
        )
        phone.enter(self.keys["ops"])
        for view in ("", "locks", "lock/orders%2F8", "services", "service/search", "domains", "grants", "events"):
            phone.go(view)
            expect(phone.page.locator("#main h1")).to_be_visible()
            wide = phone.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if wide > 0:
                raise Failure(f"{view or 'overview'}: the page is {wide} pixels too wide for a phone")
        phone.check_access("the page on a phone")
        phone.close()


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2):
            return True
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the interlock program")
    parser.add_argument("--draw", type=Path, help="draw the documents' pictures in this folder and test nothing")
    arguments = parser.parse_args()
    executable = next((path for path in BROWSERS if Path(path).exists()), None)
    if executable is None:
        sys.exit("console: Chromium is missing; install it with Tools/setup.sh console")
    world = World(arguments.binary.resolve(), Path(tempfile.mkdtemp(prefix="interlock-console-")))
    try:
        configuration = world.folder / "console.yaml"
        text = console_scene.CONFIGURATION if arguments.draw else CONFIGURATION
        configuration.write_text(text.replace(str(UPSTREAM), str(world.ports[UPSTREAM])))
        world.start_sidecar(configuration)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
            if arguments.draw:
                visitor = Visitor(browser, world, viewport={"width": 1200, "height": 900})
                keys = world.environment["WEB_KEY"], world.environment["OPS_KEY"]
                console_scene.draw(world, visitor, *keys, arguments.draw)
                visitor.close()
            else:
                Check(world, browser).run()
            browser.close()
    except Failure as failure:
        sys.exit(f"console: {failure}")
    finally:
        world.close()
    if not arguments.draw:
        print("console: login, views, actions, outages, roles, keyboard, phone and accessibility work")


if __name__ == "__main__":
    main()
