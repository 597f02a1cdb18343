"""A tenant's own jobs: to read, to list, to cancel, to delete, and to fetch what came of them."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import FastAPI, Query, Request, Response
from starlette.requests import HTTPConnection

from headwater.connectors.jobs import cancel, reading
from headwater.producers.api.problems import Kind, Problem, refused
from headwater.producers.api.public import documents
from headwater.producers.api.public.answers import as_json, video
from headwater.producers.api.public.keys import caller
from headwater.producers.api.public.service import Service
from headwater.producers.api.public.shapes import Attempt, AttemptList, Status, Video, VideoList
from headwater.rules.jobs import ids
from headwater.rules.jobs.states import JobState
from headwater.rules.jobs.video import JobView

MOST_LISTED = 100


def owned(service: Service, request: HTTPConnection, video_id: str, *, deleted_too: bool = False) -> JobView:
    """The caller's own job. Raises Problem: another tenant's job is as unknown as one that never was."""
    view = None
    if ids.is_job(video_id):
        with service.database.quiet() as transaction:
            view = reading.get(transaction, caller(request).tenant, video_id)
    return known(view, deleted_too=deleted_too)


def known(view: JobView | None, *, deleted_too: bool = False) -> JobView:
    """The job, if the caller may see it. Raises Problem."""
    if view is None or (view.deleted_at is not None and not deleted_too):
        raise Problem(Kind.not_found, "This tenant has no such video.")
    return view


class Videos:
    """The routes."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        path, tags = "/v1/videos/{video_id}", documents.VIDEOS
        shown = documents.shown(Video)
        app.get("/v1/videos", responses=documents.shown(VideoList), tags=tags)(self.list_videos)
        app.get(path, responses=shown, tags=tags)(self.get_video)
        app.delete(path, responses=shown, tags=tags)(self.delete_video)
        app.post(f"{path}/undelete", responses=shown, tags=tags)(self.undelete_video)
        app.post(f"{path}/cancel", responses=shown, tags=tags)(self.cancel_video)
        app.get(f"{path}/attempts", responses=documents.shown(AttemptList), tags=tags)(self.list_attempts)
        app.get(f"{path}/content", status_code=302, responses=documents.redirect(), tags=tags)(self.get_content)

    def list_videos(
        self,
        request: Request,
        after: Annotated[str | None, Query(max_length=64, description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 20,
        order: Literal["desc", "asc"] = "desc",
        status: Annotated[list[Status] | None, Query(max_length=10)] = None,
    ) -> Response:
        """The newest first. Deleted ones are not listed."""
        if after is not None and not ids.is_job(after):
            raise refused("This is no cursor of ours: pass `next` of the page before.", parameter="after")
        states = None if status is None else [state for state in JobState if state.public in status]
        with self._service.database.quiet() as transaction:
            views = reading.listed(
                transaction,
                caller(request).tenant,
                after=after,
                limit=limit + 1,
                states=states,
                oldest_first=order == "asc",
            )
        more = len(views) > limit
        page = views[:limit]
        data = self._shown(request, page)
        return as_json({
            "object": "list",
            "data": data,
            "has_more": more,
            "next": page[-1].job if more else None,
        })  # fmt: skip

    def get_video(self, request: Request, video_id: str) -> Response:
        """A job as it is now. While it is queued, `queue_position` and `eta` say when it should start."""
        return as_json(self._shown(request, [owned(self._service, request, video_id)])[0])

    def delete_video(self, request: Request, video_id: str) -> Response:
        """Hides an ended job. It can be undeleted for as long as results of its tenant are kept, then its bytes go."""
        owned(self._service, request, video_id)
        with self._service.database.transaction() as transaction:
            view = known(cancel.delete(transaction, caller(request).tenant, video_id), deleted_too=True)
        if view.deleted_at is None:
            raise Problem(Kind.not_final, "Cancel it first, or wait for its end.")
        return as_json(self._shown(request, [view])[0])

    def undelete_video(self, request: Request, video_id: str) -> Response:
        """Shows a deleted job again, with its result if its time is not over."""
        owned(self._service, request, video_id, deleted_too=True)
        with self._service.database.transaction() as transaction:
            view = cancel.undelete(transaction, caller(request).tenant, video_id)
        return as_json(self._shown(request, [known(view)])[0])

    def cancel_video(self, request: Request, video_id: str) -> Response:
        """Ends a job: at once while it waits, else when its worker has stopped. Repeating it is harmless."""
        owned(self._service, request, video_id)
        with self._service.database.transaction() as transaction:
            view = known(cancel.cancel(transaction, caller(request).tenant, video_id))
        if view.state.final and view.state is not JobState.cancelled:
            raise Problem(Kind.already_final, f"It is {view.state.public}, which it stays.")
        return as_json(self._shown(request, [view])[0])

    def list_attempts(self, request: Request, video_id: str) -> Response:
        """Every worker that had the job, how that ended, and the end of what the model said."""
        owned(self._service, request, video_id)
        with self._service.database.quiet() as transaction:
            attempts = reading.attempts(transaction, caller(request).tenant, video_id)
        return as_json({"object": "list", "data": [_attempt(one) for one in attempts]})

    def get_content(
        self, request: Request, video_id: str, variant: Literal["video", "thumbnail"] = "video"
    ) -> Response:
        """Leads to the file itself, at an address that anybody may read for a while."""
        view = owned(self._service, request, video_id)
        if view.state is not JobState.completed or view.result is None:
            if view.state.final:
                raise Problem(Kind.gone, f"It is {view.state.public}: there is no result.")
            raise Problem(Kind.not_ready, f"It is {view.state.public}.", headers={"Retry-After": "2"})
        if view.expires_at is not None and view.expires_at.timestamp() <= time.time():
            raise Problem(Kind.gone, "Its result is not kept any more.")
        key = view.result.get("key" if variant == "video" else "thumbnail")
        if key is None:
            raise Problem(Kind.not_found, f"This result has no {variant}.")
        url = self._service.objects.presigned(key, self._service.config.content_seconds)
        return Response(status_code=302, headers={"Location": url, "Cache-Control": "no-store"})

    def _shown(self, request: Request, views: list[JobView]) -> list[dict[str, object]]:
        offers, weight = self._service.market.offers(), caller(request).weight
        return [video(view, offers, weight) for view in views]


def _attempt(one: reading.Attempt) -> dict[str, object]:
    times = {"granted_at": one.granted_at, "started_at": one.claimed_at, "ended_at": one.ended_at}
    said = {name: getattr(one, name) for name in Attempt.model_fields if hasattr(one, name)}
    return {
        **said,
        "attempt": one.epoch,
        **{name: None if moment is None else int(moment.timestamp()) for name, moment in times.items()},
    }
