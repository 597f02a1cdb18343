"""The act in which videos are made from prompts: `headwater worker`, `headwater jobs`, and a kill in the midst of one.

Steps are slow because the demo asks for it: the test card would be done before anybody looked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av

from headwater import settings
from headwater.connectors.api.client import Client
from headwater.connectors.api.config import ClientConfig
from headwater.demo import jobs_view
from headwater.demo.commands import LOOK_SECONDS, demo_environment, shown
from headwater.demo.receiver import Receiver
from headwater.demo.streams import Streams
from headwater.demo.view import size
from headwater.demo.workers import MODEL, Workers
from headwater.demo.world import World
from headwater.rules.errors import Corrupt, Unavailable

FIRST, SECOND = "first", "second"
PROMPTS = ("a red fox in the snow", "a lighthouse at dusk", "rain on a tin roof")
SECONDS = 8
STEP_SECONDS = 0.25
"""Of each of its 8 frames a second: a video takes 16 seconds on the first worker."""
KILL_PERCENTS = range(50, 85)
"""Half done, and not so far that a slow machine finishes it before it dies."""
WITHIN_SECONDS = 120.0
"""Many times what two slow cores need, so that only a real fault reaches it."""


def videos_are_made(world: World) -> None:
    world.screen.act(
        6,
        "Videos from prompts, and a worker that dies",
        "Three jobs go to workers that render a test card. One worker is killed in the midst of a video: its lease "
        "ends, another takes the job from the last checkpoint in S3, and all of it counts once.",
    )
    tenant = _tenant(world)
    client = Client(ClientConfig(url=_service(world), key=tenant["key"]))
    with (
        client,
        Receiver(tenant["webhook_secret"]) as receiver,
        Workers(world.place, world.headwater, world.place.name) as workers,
    ):
        streams = Streams(client)
        workers.start(FIRST, f"step_seconds={STEP_SECONDS}")
        world.screen.say(f"started worker {FIRST}: `headwater worker --pool {world.place.name} --model {MODEL}`")
        _wait(world, streams, workers, f"worker {FIRST}", lambda: any(one["id"] == MODEL for one in client.models()))
        jobs = [_submitted(world, streams, prompt, receiver.url) for prompt in PROMPTS]
        victim = _killed_in_the_midst(world, client, streams, workers)
        _wait(world, streams, workers, "all three videos", lambda: all(_ended(one) for one in streams.videos()))
        _resumed(world, client, victim)
        _told(world, streams, workers, receiver, jobs)
    _played(world, victim)


def _tenant(world: World) -> dict[str, Any]:
    """The demo's own, with its key and the secret of its webhooks."""
    name = world.place.name
    world.headwater("pools", "set", name)
    made: dict[str, Any] = json.loads(world.headwater("tenants", "add", name, "--json"))
    world.headwater.know("HEADWATER_CLIENT__KEY", made["key"])
    return made


def _service(world: World) -> str:
    url = settings.load(file=world.place.settings_file, environment=demo_environment(world.place)).client.url
    assert url is not None
    return url


def _submitted(world: World, streams: Streams, prompt: str, webhook: str) -> str:
    arguments = ("jobs", "submit", prompt, "--model", MODEL, "--seconds", str(SECONDS), "--webhook-url", webhook)
    world.screen.command(shown(*arguments))
    video = json.loads(world.headwater(*arguments, "--json"))
    streams.follow(video)
    return str(video["id"])


def _killed_in_the_midst(world: World, client: Client, streams: Streams, workers: Workers) -> str:
    """The job whose worker was killed."""
    half_done: list[str] = []

    def look() -> bool:
        running = [one["id"] for one in streams.videos() if one["status"] == "in_progress"]
        videos = [client.get(job) for job in running]
        half_done.extend(
            one["id"] for one in videos if one["progress"] in KILL_PERCENTS and one["checkpoint_step"] is not None
        )
        return bool(half_done)

    _wait(world, streams, workers, "a video to be half done", look)
    pid, [job, *_] = workers.kill(FIRST), half_done
    workers.start(SECOND)
    attempt = client.attempts(job)[-1]
    at = f"at step {attempt['step']} of {attempt['steps']}, saved up to step {client.get(job)['checkpoint_step']}"
    world.screen.say(f"kill -9 {pid}: worker {FIRST}, {at}")
    world.screen.say(f"started worker {SECOND}: it gets the job when the lease of {FIRST} ends, others at once")
    return job


def _resumed(world: World, client: Client, job: str) -> None:
    lost, done = client.attempts(job)[0], client.attempts(job)[-1]
    if lost["outcome"] != "lease_lost" or done["outcome"] != "completed" or done["resumed_step"] is None:
        raise Corrupt(
            f"its attempts ended as {lost['outcome']} and {done['outcome']}, resumed at {done['resumed_step']}.",
            asked="The second attempt was to resume from the first one's checkpoint.",
            kept="The job is as it is.",
            advice=f"See `headwater trace {job}`, and the logs in {world.place.logs}.",
        )
    _quote(world, "jobs", "attempts", job)
    world.screen.check(f"attempt {done['attempt']} resumed at step {done['resumed_step']} of {done['steps']}")


def _told(world: World, streams: Streams, workers: Workers, receiver: Receiver, jobs: list[str]) -> None:
    _wait(world, streams, workers, "the webhooks", lambda: len({one.id for one in receiver.received()}) >= len(jobs))
    told = receiver.received()
    wrong = [one for one in told if not one.right]
    if wrong or sorted({(one.job, one.type) for one in told}) != sorted((job, "video.completed") for job in jobs):
        raise Corrupt(
            f"{', '.join(f'{one.type} of {one.job}' for one in told)} came; {len(wrong)} with a wrong signature.",
            asked="One signed webhook was to come for each job.",
            advice=f"See webhooks.log in {world.place.logs}.",
        )
    world.screen.check(f"a webhook came for each of the {len(jobs)}, signed with the tenant's secret: {told[0].id}, …")


def _played(world: World, job: str) -> None:
    file = world.place.videos / "resumed.mp4"
    file.parent.mkdir(parents=True, exist_ok=True)
    _quote(world, "jobs", "download", job, "--into", str(file))
    seconds, frames = probed(file)
    if abs(seconds - SECONDS) > 0.1:
        raise Corrupt(f"{file} lasts {seconds:.2f} s instead of {SECONDS} s.", asked="A finished video was played.")
    world.screen.check(f"by its pre-signed URL, from S3: {size(file.stat().st_size)}, {seconds:.1f} s, {frames} frames")


def probed(file: Path) -> tuple[float, int]:
    """Seconds and frames, by decoding all of it."""
    with av.open(str(file)) as container:
        stream = container.streams.video[0]
        frames = sum(1 for _ in container.decode(stream))
        return float(frames / (stream.average_rate or 1)), frames


def _ended(video: dict[str, Any]) -> bool:
    return video["status"] in ("completed", "failed", "cancelled", "expired")


def _wait(world: World, streams: Streams, workers: Workers, what: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    world.screen.waiting(f"waiting for {what}")
    try:
        while not done():
            if videos := streams.videos():
                world.screen.present(jobs_view.picture(videos), jobs_view.plain(videos))
            workers.require_alive()
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"it did not happen within {WITHIN_SECONDS:.0f} s.",
                    asked=f"The demo waited for {what}.",
                    kept=f"All state is kept in {world.place.state}.",
                    advice=f"See the logs in {world.place.logs}, and `headwater pools`.",
                )
            time.sleep(LOOK_SECONDS)
    finally:
        world.screen.waiting("")


def _quote(world: World, *arguments: str) -> None:
    world.screen.quote(shown(*arguments), world.headwater(*arguments))
