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


def call(status: HTTPStatus, operation: Any, *words: Any, **options: Any) -> Any:
    reply = operation.sync_detailed(*words, client=client, **options)
    if reply.status_code != status:
        sys.exit(f"{operation.__name__}: {reply.status_code} {reply.content!r}, expected {status}")
    return reply.parsed


client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
OK, CREATED, NO_CONTENT, CONFLICT = HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT, HTTPStatus.CONFLICT

lease = call(CREATED, acquire_lock, "orders", body=LockRequest(ttl_ms=30_000))
call(CONFLICT, acquire_lock, "orders", body=LockRequest(ttl_ms=30_000))
lock = call(OK, inspect_lock, "orders")
assert str(lock.mode) == "exclusive", lock
call(OK, renew_lock, "orders", body=RenewRequest(token=lease.token, ttl_ms=30_000))
call(OK, list_locks)
call(OK, list_grants)
call(NO_CONTENT, release_lock, "orders", lease_token=lease.token)
free = call(HTTPStatus.NOT_FOUND, inspect_lock, "orders")
shared = call(CREATED, acquire_lock, "readers", body=LockRequest(ttl_ms=30_000, mode=LockMode.SHARED))
call(NO_CONTENT, release_lock, "readers", lease_token=shared.token)
call(CREATED, acquire_lock, "slots", body=LockRequest(ttl_ms=30_000, permits=2))
call(CREATED, acquire_lock, "first", body=LockRequest(ttl_ms=30_000, also=["second"]))

call(OK, check, "catalog")
call(OK, check, "catalog", cost=1)
call(OK, peek_limit, "catalog")
call(OK, take_limit, "catalog", body=CallRequest())
call(HTTPStatus.TOO_MANY_REQUESTS, check, "catalog", interlock_cost=1)
call(OK, list_domains)

call(OK, list_services)
call(OK, override_service, "catalog", body=Override(state=OverrideState.DISABLED))
assert str(call(OK, show_service, "catalog").forced) == "disabled"
call(OK, override_service, "catalog", body=Override(state=OverrideState.AUTO))
call(HTTPStatus.TOO_MANY_REQUESTS, acquire_permit, "catalog", body=CallRequest())

call(OK, is_alive)
call(OK, is_ready)
call(OK, list_fleet)
call(OK, show_redis)
call(OK, look)
for view in (ViewName.LOCKS, ViewName.SERVICES, ViewName.GRANTS, ViewName.EVENTS, ViewName.DOMAINS):
    call(OK, look, view=view)
call(OK, look, view=ViewName.SERVICE, name="catalog")

call(OK, take_smallest_lock, hash_="nightly")
call(NO_CONTENT, free_smallest_lock, hash_="nightly")
assert report_permit and Outcome and OutcomeReport
