"""Calls each operation of the generated client with as few arguments as it needs."""

import sys
from http import HTTPStatus
from typing import Any

from generated import AuthenticatedClient
from generated.api.limits import check, list_domains, peek_limit, take_limit
from generated.api.locks import acquire_lock, inspect_lock, list_grants, list_locks, release_lock, renew_lock
from generated.api.services import acquire_permit, list_services, override_service, report_permit, show_service
from generated.api.sidecar import is_alive, is_ready, list_fleet, look, show_redis
from generated.api.smallest_lock import free_smallest_lock, take_smallest_lock
from generated.models import (
    CallRequest,
    LockMode,
    LockRequest,
    Outcome,
    OutcomeReport,
    Override,
    OverrideState,
    RenewRequest,
    ViewName,
)


def answer(status: HTTPStatus, operation: Any, *words: Any, **options: Any) -> Any:
    reply = operation.sync_detailed(*words, client=client, **options)
    if reply.status_code != status:
        sys.exit(f"{operation.__name__}: {reply.status_code} {reply.content!r}, expected {status}")
    return reply.parsed


client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
OK, CREATED, NO_CONTENT, CONFLICT = HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT, HTTPStatus.CONFLICT

lease = answer(CREATED, acquire_lock, "orders", body=LockRequest(ttl_ms=30_000))
answer(CONFLICT, acquire_lock, "orders", body=LockRequest(ttl_ms=30_000))
lock = answer(OK, inspect_lock, "orders")
assert str(lock.mode) == "exclusive", lock
answer(OK, renew_lock, "orders", body=RenewRequest(token=lease.token, ttl_ms=30_000))
answer(OK, list_locks)
answer(OK, list_grants)
answer(NO_CONTENT, release_lock, "orders", lease_token=lease.token)
free = answer(HTTPStatus.NOT_FOUND, inspect_lock, "orders")
shared = answer(CREATED, acquire_lock, "readers", body=LockRequest(ttl_ms=30_000, mode=LockMode.SHARED))
answer(NO_CONTENT, release_lock, "readers", lease_token=shared.token)
answer(CREATED, acquire_lock, "places", body=LockRequest(ttl_ms=30_000, permits=2))
answer(CREATED, acquire_lock, "first", body=LockRequest(ttl_ms=30_000, also=["second"]))

answer(OK, check, "catalog")
answer(OK, check, "catalog", cost=1)
answer(OK, peek_limit, "catalog")
answer(OK, take_limit, "catalog", body=CallRequest())
answer(HTTPStatus.TOO_MANY_REQUESTS, check, "catalog", interlock_cost=1)
answer(OK, list_domains)

answer(OK, list_services)
answer(OK, override_service, "catalog", body=Override(state=OverrideState.DISABLED))
assert str(answer(OK, show_service, "catalog").forced) == "disabled"
answer(OK, override_service, "catalog", body=Override(state=OverrideState.AUTO))
answer(HTTPStatus.TOO_MANY_REQUESTS, acquire_permit, "catalog", body=CallRequest())

answer(OK, is_alive)
answer(OK, is_ready)
answer(OK, list_fleet)
answer(OK, show_redis)
answer(OK, look)
for view in (ViewName.LOCKS, ViewName.SERVICES, ViewName.GRANTS, ViewName.EVENTS, ViewName.DOMAINS):
    answer(OK, look, view=view)
answer(OK, look, view=ViewName.SERVICE, name="catalog")

answer(OK, take_smallest_lock, hash_="nightly")
answer(NO_CONTENT, free_smallest_lock, hash_="nightly")
assert report_permit and Outcome and OutcomeReport
