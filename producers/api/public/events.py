"""Streams of a job's events: SSE, and a WebSocket of the same.

    event: snapshot   the whole video, at first and whenever the client's last event is too old to go on from
    event: status     a change of state
    event: progress   a step of the model

Each event is whole in itself and has an id that only grows. ``Last-Event-ID`` goes on after that event. A stream ends
after the event that tells of a final state; who comes again with the id of that one hears 204, which tells browsers to
stop. A stream that ends before that is to be opened again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any

import anyio
from fastapi import FastAPI, Header, Request, Response, WebSocket
from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from headwater.observe import job_metrics
from headwater.producers.api.problems import Problem, answer, of_error, refused, unavailable
from headwater.producers.api.public import documents
from headwater.producers.api.public.answers import video
from headwater.producers.api.public.keys import caller
from headwater.producers.api.public.service import Service
from headwater.producers.api.public.stream_event import Place, StreamEvent, place_of
from headwater.producers.api.public.videos import owned
from headwater.producers.api.public.watch import Ended
from headwater.rules.errors import HeadwaterError
from headwater.rules.jobs.video import JobView

PING_SECONDS = 15.0
_RETRY_MS = 2_000
_BEFORE_ALL: Place = (-1, -1)
_GOING_AWAY, _DONE = 1001, 1000
"""WebSocket close codes: open it again; all was told."""
_CUT_SHORT = (Ended, Problem, HeadwaterError)
"""The process stops, the job was deleted, the catalog is away: a client that comes again hears which."""


@dataclass(frozen=True, slots=True)
class Item:
    """What is sent: an event, or a ping (``name`` is None)."""

    name: str | None
    id: str = ""
    data: Any = None

    def as_sse(self) -> bytes:
        if self.name is None:
            return format_sse_event(comment="ping")
        return format_sse_event(data_str=json.dumps(self.data), event=self.name, id=self.id)


class Events:
    """The routes."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        path = "/v1/videos/{video_id}/events"
        app.get(path, response_class=StreamingResponse, responses=documents.stream(), tags=["videos"])(
            self.stream_events
        )
        app.websocket(path)(self.socket_events)

    async def stream_events(
        self, request: Request, video_id: str, last_event_id: Annotated[str | None, Header()] = None
    ) -> Response:
        """Server-sent events of a job, until it has ended."""
        after = _after(last_event_id)
        view = await self._view(request, video_id)
        if view.state.final and after == _place(view):
            return Response(status_code=204)
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._sse(request, view.job, after), headers=headers, media_type="text/event-stream")

    async def socket_events(
        self, socket: WebSocket, video_id: str, last_event_id: Annotated[str | None, Header()] = None
    ) -> None:
        """The same as JSON messages ``{"event", "id", "data"}``; nothing is expected from the client."""
        try:
            after = _after(last_event_id)
            view = await self._view(socket, video_id)
        except (Problem, HeadwaterError) as failure:
            problem = failure if isinstance(failure, Problem) else of_error(failure)
            await socket.send_denial_response(answer(problem))
            return
        await socket.accept()
        async with anyio.create_task_group() as both:
            both.start_soon(_until_it_leaves, socket, both.cancel_scope)
            code = await self._send_all(socket, view.job, after)
            await socket.close(code)
            both.cancel_scope.cancel()

    async def _send_all(self, socket: WebSocket, job: str, after: Place) -> int:
        """Returns the close code."""
        try:
            async with aclosing(self._items("websocket", socket, job, after)) as items:
                async for item in items:
                    if item.name is not None:  # the server pings by itself
                        await socket.send_text(json.dumps({"event": item.name, "id": item.id, "data": item.data}))
        except _CUT_SHORT:
            return _GOING_AWAY
        return _DONE

    async def _sse(self, request: Request, job: str, after: Place) -> AsyncIterator[bytes]:
        yield format_sse_event(retry=_RETRY_MS)
        try:
            async with aclosing(self._items("sse", request, job, after)) as items:
                async for item in items:
                    yield item.as_sse()
        except _CUT_SHORT:
            return

    async def _items(self, kind: str, connection: HTTPConnection, job: str, after: Place) -> AsyncGenerator[Item, None]:
        """All events after ``after``, to the final one. Raises one of ``_CUT_SHORT`` where it must end before that."""
        with job_metrics.API_STREAMS.labels(kind).track_inprogress(), self._service.fanout.watch(job) as watch:
            place, final = after, False
            heard = self._service.fanout.since(job, after)
            if heard is None:  # watched from before this look on: nothing can fall in between
                view, shown = await run_in_threadpool(self._snapshot, connection, job)
                place, final = _place(view), view.state.final
                if place != after:
                    yield Item("snapshot", f"{place[0]}-{place[1]}", shown)
            for event in heard or ():
                if event.place > after:
                    yield Item(event.name, event.id, event.data())
                place, final = event.place, event.state.final
            while not final:
                event_or_none = await watch.next(place, PING_SECONDS)
                if event_or_none is None:
                    yield Item(None)
                else:
                    yield Item(event_or_none.name, event_or_none.id, event_or_none.data())
                    place, final = event_or_none.place, event_or_none.state.final

    async def _view(self, connection: HTTPConnection, video_id: str) -> JobView:
        """Before a stream begins: whether it may."""
        if self._service.fanout.watching() >= self._service.config.streams:
            raise unavailable("This process has as many streams as it takes.")
        return await run_in_threadpool(owned, self._service, connection, video_id)

    def _snapshot(self, connection: HTTPConnection, job: str) -> tuple[JobView, dict[str, Any]]:
        view = owned(self._service, connection, job)
        return view, video(view, self._service.market.offers(), caller(connection).weight)


async def _until_it_leaves(socket: WebSocket, scope: anyio.CancelScope) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
    scope.cancel()


def _after(last_event_id: str | None) -> Place:
    if last_event_id is None:
        return _BEFORE_ALL
    place = place_of(last_event_id)
    if place is None:
        raise refused("This is no id of an event of ours.", header="Last-Event-ID")
    return place


def _place(view: JobView) -> Place:
    return StreamEvent.of_view(view, 0).place
