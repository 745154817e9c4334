"""Tests the console in a real browser, as operators use it.

`make test-console` runs it: login, every view, a lock that is acquired, waited for and broken, a breaker that trips and
is forced, outages of Redis and of the sidecar, names that contain markup, a phone, the keyboard, and axe's
accessibility rules, in light and dark. `--screenshots FOLDER` takes the screenshots of the documents instead, in six
minutes: see console_scene.py.
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
from servers import HTTP, REDIS, RESP, TIMEOUT, UPSTREAM, Connection, Failure, Servers, free_ports

#: The browser's path on Debian and on other systems.
BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
#: The maximum size of the page, in bytes.
MAX_PAGE_BYTES = 150_000
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


class User:
    """A user of the console. Records the page's messages and requests, and fails on unexpected ones."""

    def __init__(self, browser: Browser, servers: Servers, **settings: object) -> None:
        self.base = f"http://127.0.0.1:{servers.ports[HTTP]}"
        self.context: BrowserContext = browser.new_context(**settings)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(TIMEOUT * 1000)
        self.errors: list[str] = []
        self.external_requests: list[str] = []
        self.ignores_errors = False
        self.page.on("console", lambda message: self.on_message(message.type, message.text))
        self.page.on("pageerror", lambda error: self.on_message("error", str(error)))
        self.page.on("request", lambda request: self.on_request(request.url))

    def on_message(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not self.ignores_errors:
            self.errors.append(f"{kind}: {text}")

    def on_request(self, url: str) -> None:
        if not url.startswith((self.base + "/", "data:")):
            self.external_requests.append(url)

    @contextlib.contextmanager
    def ignoring_errors(self) -> Iterator[None]:
        """Ignores the browser's own messages about error responses and unreachable servers."""
        self.ignores_errors = True
        yield
        self.ignores_errors = False

    def log_in_with(self, key: str) -> None:
        self.page.goto(f"{self.base}/console")
        self.page.get_by_label("Key", exact=True).fill(key)
        self.page.get_by_role("button", name="Log in").click()
        self.expect_text("#link-text", "live")

    def open_view(self, view: str) -> None:
        self.page.evaluate("(view) => { location.hash = '#/' + view }", view)

    def expect_text(self, selector: str, text: str | re.Pattern[str]) -> None:
        expect(self.page.locator(selector).first).to_contain_text(text, timeout=TIMEOUT * 1000)

    def expect_no_text(self, selector: str, text: str) -> None:
        expect(self.page.locator(selector).first).not_to_contain_text(text, timeout=TIMEOUT * 1000)

    def time_until(self, text: str, action: Callable[[], object]) -> float:
        """Returns the time from the reply to an action until the page shows a text, in milliseconds."""
        self.page.evaluate(
            """([text, timeout]) => {
                 const end = Date.now() + timeout;
                 window.seenAt_ = new Promise((resolve, reject) => {
                   const check = () => {
                     if (document.getElementById("main").textContent.includes(text)) resolve(Date.now());
                     else if (Date.now() > end) reject(new Error(`not seen: ${text}`));
                     else requestAnimationFrame(check);
                   };
                   check();
                 });
               }""",
            [text, TIMEOUT * 1000],
        )
        action()
        done = time.time() * 1000
        return max(0.0, float(self.page.evaluate("window.seenAt_")) - done)

    def check_access(self, location: str) -> None:
        found = Axe().run(self.page)
        if found.violations_count:
            raise Failure(f"axe found violations on {location}: {found.generate_report()}")

    def close(self) -> None:
        self.context.close()
        if self.errors:
            raise Failure(f"the page logged errors: {self.errors}")
        if self.external_requests:
            raise Failure(f"the page sent requests to other hosts: {self.external_requests}")


class Check:
    """One run through all views."""

    def __init__(self, servers: Servers, browser: Browser) -> None:
        self.servers = servers
        self.browser = browser
        self.keys = {name: servers.environment[f"{name.upper()}_KEY"] for name in ("web", "ops")}
        self.local = Connection(servers.ports[RESP], self.keys["web"])
        self.remote = Connection(self.start_second_sidecar(), self.keys["web"])

    def start_second_sidecar(self) -> int:
        """Starts a second sidecar of the same fleet."""
        resp, http = free_ports(2)
        servers = self.servers
        # fmt: off
        servers.start(
            str(servers.binary), "serve", "--config", str(servers.folder / "console.yaml"),
            "--redis", f"redis://127.0.0.1:{servers.ports[REDIS]}",
            "--resp", f"127.0.0.1:{resp}", "--http", f"127.0.0.1:{http}",
        )
        # fmt: on
        address = f"http://127.0.0.1:{http}/readyz"
        servers.wait_until("the second sidecar is ready", lambda: answers(address))
        return resp

    def run(self) -> None:
        self.check_size()
        ops = User(self.browser, self.servers, viewport={"width": 1200, "height": 900}, color_scheme="light")
        self.log_in(ops)
        self.overview(ops)
        self.locks(ops)
        self.queue_and_break(ops)
        self.another_holder(ops)
        self.held_elsewhere(ops)
        self.breaker(ops)
        self.list_views(ops)
        self.check_all_views(ops)
        self.keyboard(ops)
        self.redis_outage(ops)
        self.unexpected_data(ops)
        self.sidecar_restart(ops)
        ops.close()
        self.role_use()
        self.hidden_tab()
        self.phone()

    def check_size(self) -> None:
        address = f"http://127.0.0.1:{self.servers.ports[HTTP]}/console"
        with urllib.request.urlopen(address) as answer:
            size = len(answer.read())
        print(f"console: the page has {size:,} of at most {MAX_PAGE_BYTES:,} bytes")
        if size > MAX_PAGE_BYTES:
            raise Failure("the page is too large")

    def log_in(self, ops: User) -> None:
        ops.page.goto(f"{ops.base}/console")
        expect(ops.page.get_by_role("dialog", name="API key")).to_be_visible()
        ops.check_access("the login")
        with ops.ignoring_errors():
            ops.page.get_by_label("Key", exact=True).fill("none")
            ops.page.get_by_role("button", name="Log in").click()
            ops.expect_text("#login-text", "Invalid API key")
        began = time.monotonic()
        ops.log_in_with(self.keys["ops"])
        ops.expect_text("main", "Locks held here")
        expect(ops.page.locator(".cards dd").first).not_to_be_empty()
        print(f"console: loaded, logged in and showed its first view after {(time.monotonic() - began) * 1000:.0f} ms")
        ops.expect_text("#who", "as ops (admin)")

    def overview(self, ops: User) -> None:
        ops.expect_text("main", "redis://")
        ops.expect_text("main", "(this one)")
        expect(ops.page.locator("section", has_text="Fleet").locator("tbody tr")).to_have_count(2)
        expect(ops.page.locator("figure svg")).to_have_count(4)
        ops.expect_text("#attention", "Nothing needs attention")

    def locks(self, ops: User) -> None:
        ops.open_view("locks?search=nothing-like-it")
        ops.expect_text("main", "No matching locks are held")
        ops.open_view("locks")
        delay = ops.time_until(MARKUP, lambda: self.local.call("LOCK.ACQUIRE", MARKUP, 60_000, "LABEL", "<b>bold</b>"))
        print(f"console: a lock granted by this sidecar appears after {delay:.0f} ms")
        ops.expect_text("main", "<b>bold</b>")
        if ops.page.locator("main img, main b").count() or ops.page.title().startswith("taken"):
            raise Failure("a lock's name became markup")
        self.local.call("LOCK.ACQUIRE", "orders/7", 60_000, "LABEL", "worker-3")
        ops.page.get_by_label("Name contains").fill("orders/")
        expect(ops.page.locator("tbody tr")).to_have_count(1)
        expect(ops.page.get_by_label("Name contains")).to_be_focused()
        ops.expect_text("tbody", "worker-3")
        ops.page.get_by_role("link", name="orders/7").click()
        ops.expect_text("h1", "Lock orders/7")
        ops.expect_text("main", "Nobody is waiting")

    def queue_and_break(self, ops: User) -> None:
        waiter = Connection(self.servers.ports[RESP], self.keys["web"])
        waiter.send("LOCK.ACQUIRE", "orders/7", 60_000, "WAIT", 60_000, "LABEL", "worker-4")
        waiting = ops.page.locator("section", has_text="Queue").locator("tbody tr")
        # The other sidecar's caller must be behind it in the queue.
        expect(waiting).to_have_count(1)
        remote_waiter = Connection(self.other_port, self.keys["web"])
        remote_waiter.send("LOCK.ACQUIRE", "orders/7", 60_000, "WAIT", 60_000, "LABEL", "worker-9")
        expect(waiting).to_have_count(2)
        ops.page.get_by_role("button", name="Break lock …").click()
        expect(ops.page.get_by_role("dialog", name="Break the lock orders/7?")).to_be_visible()
        ops.check_access("a dialog")
        ops.page.get_by_role("button", name="Cancel").click()
        ops.expect_text("section", "worker-3")
        ops.page.get_by_role("button", name="Break lock …").click()
        ops.page.get_by_role("button", name="Break lock", exact=True).click()
        ops.expect_text("#toast", "was broken")
        if not isinstance(waiter.answer(), list):
            raise Failure("the waiter did not get the broken lock")
        ops.expect_text("section", "worker-4")
        ops.expect_text("main", "lost")
        ops.open_view("events")
        ops.expect_text("tbody", "lock orders/7: broken by ops")

    def another_holder(self, ops: User) -> None:
        """Checks that the dialog does not break the lease of a holder that acquired the lock while it was open."""
        grant = self.local.call("LOCK.ACQUIRE", "orders/9", 60_000, "LABEL", "worker-10")
        assert isinstance(grant, list)
        ops.open_view("lock/orders%2F9")
        ops.expect_text("section", "worker-10")
        ops.page.get_by_role("button", name="Break lock …").click()
        self.local.call("LOCK.RELEASE", "orders/9", grant[0])
        self.local.call("LOCK.ACQUIRE", "orders/9", 60_000, "LABEL", "worker-11")
        # The page may or may not know the new holder yet.
        with ops.ignoring_errors():
            ops.page.get_by_role("button", name="Break lock", exact=True).click()
            ops.expect_text("#toast", "is no longer held with the fence")
        ops.expect_text("section", "worker-11")
        ops.page.get_by_role("button", name="Break lock …").click()
        expect(ops.page.get_by_role("dialog")).to_contain_text("worker-11")
        ops.page.get_by_role("button", name="Break lock", exact=True).click()
        ops.expect_text("#toast", "was broken")

    @property
    def other_port(self) -> int:
        return int(self.remote.socket.getpeername()[1])

    def held_elsewhere(self, ops: User) -> None:
        ops.open_view("lock/imports")
        ops.expect_text("main", "Nobody holds this lock")
        delay = ops.time_until(
            "nightly", lambda: self.remote.call("LOCK.ACQUIRE", "imports", 60_000, "LABEL", "nightly")
        )
        print(f"console: the view of a lock granted by another sidecar is updated after {delay:.0f} ms")
        ops.open_view("locks")
        ops.expect_text("tbody", "imports")
        delay = ops.time_until("elsewhere-2", lambda: self.remote.call("LOCK.ACQUIRE", "elsewhere-2", 60_000))
        print(f"console: a lock granted by another sidecar is listed after {delay:.0f} ms")

    def breaker(self, ops: User) -> None:
        ops.open_view("service/search")
        ops.expect_text("dl.facts", "closed")
        for _ in range(25):
            self.local.call("LIMIT.TAKE", "search")
        ops.expect_text("main", re.compile(r"[1-9]\d* of 500"))
        ops.expect_text("dl.facts", "good")
        for _ in range(8):
            permit = self.local.call("PERMIT.ACQUIRE", "mail")
            assert isinstance(permit, list)
        self.servers.set_state("upstream", "down")
        ops.expect_text("dl.facts", "open")
        ops.expect_text("section:has-text('Breaker history') tbody", "open")
        ops.open_view("")
        ops.expect_text("#attention", "Needs attention")
        ops.expect_text("#attention tbody", "search")
        ops.open_view("service/search")
        self.servers.set_state("upstream", "up")
        ops.expect_text("dl.facts", "closed")
        ops.page.get_by_label("Minutes").fill("5")
        ops.page.get_by_label("Reason").fill("maintenance <i>until noon</i>")
        ops.page.get_by_role("button", name="Force …").click()
        ops.page.get_by_role("button", name="Force breaker").click()
        ops.expect_text("#toast", "is forced open")
        ops.expect_text("dl.facts", "maintenance <i>until noon</i>")
        ops.page.get_by_role("button", name="Back to automatic").click()
        ops.page.get_by_role("dialog").get_by_role("button", name="Back to automatic").click()
        ops.expect_text("dl.facts", "closed")
        ops.expect_no_text("dl.facts", "maintenance")

    def list_views(self, ops: User) -> None:
        ops.open_view("services")
        expect(ops.page.locator("tbody tr")).to_have_count(2)
        ops.page.get_by_label("Name contains").fill("mail")
        expect(ops.page.locator("tbody tr")).to_have_count(1)
        ops.open_view("domains")
        ops.expect_text("tbody", "sliding")
        ops.expect_text("tbody", "blocks everything")
        ops.expect_text("tbody", MARKUP)
        ops.open_view("grants")
        ops.expect_text("tbody", "worker-4")
        ops.open_view("events")
        ops.expect_text("tbody", "forced open")

    def check_all_views(self, ops: User) -> None:
        """Checks the accessibility of each view in both color schemes."""
        for scheme in ("light", "dark"):
            ops.page.emulate_media(color_scheme=scheme)
            for view in ("", "locks", "lock/orders%2F7", "services", "service/search", "domains", "grants", "events"):
                ops.open_view(view)
                expect(ops.page.locator("#main h1")).to_be_visible()
                ops.check_access(f"{view or 'overview'} in {scheme}")
        ops.page.emulate_media(color_scheme="light")
        ops.open_view("")
        ops.expect_text("main", "(this one)")

    def keyboard(self, ops: User) -> None:
        ops.page.reload()
        ops.expect_text("#link-text", "live")
        ops.page.keyboard.press("Tab")
        expect(ops.page.get_by_text("Skip to content")).to_be_focused()
        ops.page.keyboard.press("Enter")
        expect(ops.page.locator("#main")).to_be_focused()
        ops.expect_text("h1", "Overview")
        ops.page.get_by_role("link", name="Overview", exact=True).focus()
        ops.page.keyboard.press("Tab")
        expect(ops.page.get_by_role("link", name="Locks", exact=True)).to_be_focused()
        ops.page.keyboard.press("Enter")
        ops.expect_text("h1", "Locks")
        expect(ops.page.locator("#main")).to_be_focused()
        expect(ops.page.locator("tbody tr").first).to_be_visible()
        for _ in range(3):
            ops.page.keyboard.press("Tab")
        expect(ops.page.locator("tbody a").first).to_be_focused()
        # New rows do not move the focus.
        self.local.call("LOCK.ACQUIRE", "zebra", 60_000)
        ops.expect_text("tbody", "zebra")
        expect(ops.page.locator("tbody a").first).to_be_focused()

    def redis_outage(self, ops: User) -> None:
        ops.open_view("")
        with ops.ignoring_errors():
            self.servers.set_state("redis", "away")
            ops.expect_text("#trouble", "cannot reach Redis")
            ops.expect_text("#link-text", "Redis is unreachable")
            # A lock that was never read is not shown as free.
            ops.open_view("lock/never-seen")
            ops.expect_text("dl.facts", "unknown")
            ops.expect_no_text("main", "Nobody holds this lock.")
            ops.open_view("")
            self.servers.set_state("redis", "back")
            expect(ops.page.locator("#trouble")).to_be_hidden(timeout=TIMEOUT * 1000)
        ops.expect_text("#link-text", "live")

    def unexpected_data(self, ops: User) -> None:
        """Checks with other keys in the same Redis, and with events that no sidecar would publish."""
        redis = Connection(self.servers.ports[REDIS])
        for number in range(20_000):
            redis.send("SET", f"other:{number}", "1")
        for _ in range(20_000):
            redis.answer()
        self.local.call("LOCK.ACQUIRE", "among-others", 60_000)
        ops.open_view("locks")
        ops.expect_text("main", "among-others")
        event = '{"v":1,"type":"x.new","origin":"o","db":0,"at_ms":9000000000000000000}'
        redis.call("PUBLISH", "interlock:events", event[:-1] + ',"x":"\\q"}')
        ops.open_view("events")
        rows = ops.page.locator("tbody").first

        def is_shown() -> bool:
            # Redis was unreachable, so the sidecar may not have subscribed again yet.
            redis.call("PUBLISH", "interlock:events", event[:-1] + ",}")
            redis.call("PUBLISH", "interlock:events", event)
            return "9999-12-31" in rows.inner_text()

        self.servers.wait_until("an event in the distant future is on the page", is_shown)

    def sidecar_restart(self, ops: User) -> None:
        before = ops.page.locator("#link-text").inner_text()
        with ops.ignoring_errors():
            assert self.servers.sidecar
            self.servers.stop(self.servers.sidecar)
            self.servers.sidecar = None
            ops.expect_text("#trouble", "trying again")
            self.servers.start_sidecar(self.servers.folder / "console.yaml")
            ops.expect_text("#link-text", "live")
        expect(ops.page.locator("#trouble")).to_be_hidden()
        if ops.page.locator("#link-text").inner_text() == before:
            raise Failure("the page did not notice that the sidecar was replaced")

    def role_use(self) -> None:
        web = User(self.browser, self.servers)
        web.log_in_with(self.keys["web"])
        self.remote.call("LOCK.ACQUIRE", "orders/8", 60_000, "LABEL", "worker-5")
        web.open_view("lock/orders%2F8")
        web.expect_text("section", "worker-5")
        expect(web.page.get_by_role("button", name="Break lock …")).to_be_hidden()
        web.open_view("service/search")
        web.expect_text("dl.facts", "closed")
        expect(web.page.get_by_role("button", name="Force …")).to_be_hidden()
        web.page.get_by_role("button", name="Forget key").click()
        expect(web.page.get_by_role("dialog", name="API key")).to_be_visible()
        web.close()

    def hidden_tab(self) -> None:
        """Checks that a tab opened in the background requests nothing until it is visible."""
        web = User(self.browser, self.servers)
        web.page.add_init_script(
            "window.isHidden_ = true; Object.defineProperty(document, 'hidden', { get: () => window.isHidden_ });"
            f"sessionStorage.setItem('interlock-key', '{self.keys['web']}');"
        )
        on_request: list[str] = []
        web.page.on("request", lambda request: on_request.append(request.url))
        web.page.goto(f"{web.base}/console")
        show = "(hidden) => { window.isHidden_ = hidden; document.dispatchEvent(new Event('visibilitychange')); }"
        if any("/v1/live" in url for url in on_request):
            raise Failure("a hidden page subscribes to the sidecar")
        web.page.evaluate(show, False)
        web.expect_text("#link-text", "live")
        web.page.evaluate(show, True)
        web.expect_text("#link-text", "connecting")
        web.page.evaluate(show, False)
        web.expect_text("#link-text", "live")
        web.close()

    def phone(self) -> None:
        phone = User(
            self.browser,
            self.servers,
            viewport={"width": 390, "height": 844},
            is_mobile=True,
            has_touch=True,
            color_scheme="dark",
        )
        phone.log_in_with(self.keys["ops"])
        for view in ("", "locks", "lock/orders%2F8", "services", "service/search", "domains", "grants", "events"):
            phone.open_view(view)
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
    parser.add_argument(
        "--screenshots", type=Path, help="take the screenshots of the documents in this directory and test nothing"
    )
    arguments = parser.parse_args()
    executable = next((path for path in BROWSERS if Path(path).exists()), None)
    if executable is None:
        sys.exit("console: Chromium is missing; install it with Tools/setup.sh console")
    servers = Servers(arguments.binary.resolve(), Path(tempfile.mkdtemp(prefix="interlock-console-")))
    try:
        configuration = servers.folder / "console.yaml"
        text = console_scene.CONFIGURATION if arguments.screenshots else CONFIGURATION
        configuration.write_text(text.replace(str(UPSTREAM), str(servers.ports[UPSTREAM])))
        servers.start_sidecar(configuration)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
            if arguments.screenshots:
                user = User(browser, servers, viewport={"width": 1200, "height": 900})
                keys = servers.environment["WEB_KEY"], servers.environment["OPS_KEY"]
                console_scene.take_screenshots(servers, user, *keys, arguments.screenshots)
                user.close()
            else:
                Check(servers, browser).run()
            browser.close()
    except Failure as failure:
        sys.exit(f"console: {failure}")
    finally:
        servers.close()
    if not arguments.screenshots:
        print("console: login, views, actions, outages, roles, keyboard, phone and accessibility work")


if __name__ == "__main__":
    main()
