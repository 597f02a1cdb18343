from pathlib import Path

import pytest

from headwater import settings
from headwater.rules.errors import BadSettings
from headwater.rules.jobs.failures import Kind, kind_of

SERVERS = {
    "HEADWATER_KAFKA": "broker-1:9092,broker-2:9092",
    "HEADWATER_POSTGRES": "postgresql://headwater:pw-of-catalog@db/headwater",
    "HEADWATER_S3": "https://access:s3-secret@s3.example:9000/media?region=eu-west-1",
    "HEADWATER_LAKEFS": "https://key:lake-secret@lakefs.example",
}


@pytest.fixture
def load(tmp_path):
    """Loads settings from a file's text, variables and flags, all in an empty folder."""

    def load(text: str | None = None, environment: dict[str, str] | None = None, flags=(), **more) -> settings.Settings:
        if text is not None:
            (tmp_path / "headwater.toml").write_text(text)
        return settings.load(environment=environment or {}, flags=flags, folder=tmp_path, **more)

    return load


def test_the_four_addresses_fill_their_sections(load):
    found = load(environment=SERVERS)

    assert found.needed_kafka().bootstrap_servers == "broker-1:9092,broker-2:9092"
    assert found.needed_catalog().dsn == SERVERS["HEADWATER_POSTGRES"]
    s3 = found.needed_s3()
    assert (s3.endpoint, s3.bucket, s3.region) == ("https://s3.example:9000", "media", "eu-west-1")
    assert (s3.access_key_id, s3.secret_access_key) == ("access", "s3-secret")
    assert found.needed_lakefs().endpoint == "https://lakefs.example"


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file(load):
    text = 'site = "file"\ndataset = "file"\nlog_level = "error"'
    environment = {"HEADWATER_SITE": "variable", "HEADWATER_DATASET": "variable"}

    found = load(text, environment, ["site=flag"])

    assert (found.site, found.dataset, found.log_level) == ("flag", "variable", "error")


def test_layers_win_value_by_value_not_section_by_section(load):
    text = '[s3]\nbucket = "file"\nendpoint = "http://s3"\nconnections = 7'

    found = load(text, {"HEADWATER_S3__BUCKET": "variable"}).needed_s3()

    assert (found.bucket, found.endpoint, found.connections) == ("variable", "http://s3", 7)


def test_an_address_says_only_what_is_in_it(load):
    assert load("[s3]\nconnections = 7", SERVERS).needed_s3().connections == 7


def test_the_file_is_the_flags_else_the_variables_else_the_folders(tmp_path, load):
    (tmp_path / "other.toml").write_text('site = "other"')
    (tmp_path / "named.toml").write_text('site = "named"')
    environment = {"HEADWATER_CONFIG": str(tmp_path / "named.toml")}

    assert load('site = "folder"').site == "folder"
    assert load('site = "folder"', environment).site == "named"
    assert load('site = "folder"', environment, file=Path("other.toml")).site == "other"


def test_text_becomes_the_type_of_its_setting(load):
    text = '[sources.photos]\nroot = "photos"'
    environment = {
        "HEADWATER_SOURCES__PHOTOS__SETTLE_SECONDS": "0.5",
        "HEADWATER_SOURCES__PHOTOS__EXCLUDE": "*.part, cache/",
        "HEADWATER_SOURCES__PHOTOS__INCLUDE": '["*.jpg", "a, b"]',
        "HEADWATER_KAFKA": "b:1",
        "HEADWATER_KAFKA__CLIENT__SECURITY_PROTOCOL": "SASL_SSL",
    }

    found = load(text, environment)

    assert found.sources["photos"].settle_seconds == 0.5
    assert found.sources["photos"].exclude == ("*.part", "cache/")
    assert found.sources["photos"].include == ("*.jpg", "a, b")
    assert found.needed_kafka().client == {"security.protocol": "SASL_SSL"}


def test_a_source_takes_its_name_site_and_dataset_from_above(load):
    text = 'site = "lab"\ndataset = "all"\n[sources.photos]\nroot = "p"\n[sources.clips]\nroot = "c"\ndataset = "clips"'

    found = load(text).sources

    assert {name: (s.source, s.site, s.dataset) for name, s in found.items()} == {
        "photos": ("photos", "lab", "all"),
        "clips": ("clips", "lab", "clips"),
    }


def test_components_know_the_site_the_dataset_and_the_state_folder(load, tmp_path):
    found = load(
        'site = "lab"\ndataset = "all"\nstate_folder = "state"\n[upload]\ntransfers = 4\n[upload.roots]\np = "/p"'
    )

    assert (found.upload.site, found.upload.transfers, found.upload.roots) == ("lab", 4, {"p": Path("/p")})
    assert found.commit.dataset == "all"
    assert found.member.slot_folder == tmp_path / "state" / "slots"


def test_relative_paths_start_from_the_file(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "headwater.toml").write_text('state_folder = "state"\n[sources.photos]\nroot = "../photos"')

    found = settings.load(file=Path("etc/headwater.toml"), environment={}, folder=tmp_path)

    assert found.state_folder == tmp_path / "etc" / "state"
    assert found.sources["photos"].root == tmp_path / "etc" / ".." / "photos"


def test_a_secret_is_read_from_the_file_that_is_named_for_it(tmp_path, load):
    (tmp_path / "s3.key").write_text("from-file\n")
    (tmp_path / "dsn").write_text("postgresql://u:p@db/headwater\n")
    (tmp_path / "sasl").write_text("open sesame\n")
    text = """
        [s3]
        bucket = "media"
        access_key_id = "access"
        secret_access_key_file = "s3.key"
        [catalog]
        dsn_file = "dsn"
        [kafka]
        bootstrap_servers = "b:1"
        [kafka.client]
        "sasl.password_file" = "sasl"
        "ssl.ca.location" = "ca.pem"
    """

    found = load(text)

    assert found.needed_s3().secret_access_key == "from-file"
    assert found.needed_catalog().dsn == "postgresql://u:p@db/headwater"
    assert found.needed_kafka().client == {"sasl.password": "open sesame", "ssl.ca.location": "ca.pem"}


def test_no_secret_is_in_the_repr(load):
    environment = {**SERVERS, "HEADWATER_KAFKA__CLIENT__SASL_PASSWORD": "kafka-secret"}

    shown = repr(load(environment=environment))

    assert "media" in shown
    assert "sasl.password" in shown
    for secret in ("pw-of-catalog", "s3-secret", "lake-secret", "kafka-secret"):
        assert secret not in shown


def test_a_server_that_is_named_nowhere_is_the_running_local_stacks(tmp_path, load):
    asked = []

    def running(state_folder: Path) -> dict[str, str]:
        asked.append(state_folder)
        return SERVERS

    found = load('state_folder = "state"\n[kafka]\nprefix = "mine."', local_stack=running)

    assert asked == [tmp_path / "state"]
    assert found.needed_kafka().bootstrap_servers == "broker-1:9092,broker-2:9092"
    assert found.needed_kafka().prefix == "mine."
    assert found.needed_s3().bucket == "media"


def test_the_local_stack_never_mixes_with_a_server_that_is_named(load):
    found = load('[s3]\nbucket = "production"', local_stack=lambda _: SERVERS).needed_s3()

    assert found.bucket == "production"
    assert (found.endpoint, found.access_key_id) == (None, None)


def test_peers_share_the_local_stacks_key_where_they_meet_on_its_kafka(load):
    local = {**SERVERS, "HEADWATER_PEER__KEY": "the local stack's key"}

    def key(*given, **more) -> str | None:
        return load(*given, local_stack=lambda _: local, **more).peer.key

    assert key() == "the local stack's key"
    assert key("[peer]\nhost = 'node-7'") == "the local stack's key"
    assert key(environment={"HEADWATER_PEER__KEY": "the key of the fleet"}) == "the key of the fleet"
    assert key("[kafka]\nbootstrap_servers = 'broker:9092'") is None, "who meets elsewhere is given that key"


def test_workers_and_commands_share_the_local_stacks_keys_where_they_use_its_jobs(load):
    local = {**SERVERS, "HEADWATER_WORKER__KEY": "of the workers", "HEADWATER_CLIENT__KEY": "of the tenant"}

    def keys(*given, **more) -> tuple[str, str]:
        found = load(*given, local_stack=lambda _: local, **more)
        return found.worker.key, found.client.key

    assert keys() == ("of the workers", "of the tenant")
    assert keys("[worker]\nslots = 2") == ("of the workers", "of the tenant")
    assert keys(environment={"HEADWATER_WORKER__KEY": "mine"}) == ("mine", "of the tenant")
    assert keys(environment={"HEADWATER_API": "https://videos.example"}) == ("of the workers", ""), "not to strangers"
    assert keys("[worker]\nendpoint = 'http://elsewhere:1'") == ("", "of the tenant")
    assert keys("[catalog]\ndsn = 'postgresql://db/jobs'") == ("", "")


def test_workers_and_commands_find_the_service_of_this_host(load):
    found = load("[api]\nport = 8000\ninternal_port = 8001")

    assert (found.client.url, found.worker.endpoint) == ("http://127.0.0.1:8000", "http://127.0.0.1:8001")
    assert found.worker.work_folder == found.state_folder / "work"
    elsewhere = load("[worker]\nendpoint = 'http://a:1'", {"HEADWATER_API": "https://b"})
    assert (elsewhere.client.url, elsewhere.worker.endpoint) == ("https://b", "http://a:1")


def test_operators_add_to_the_table_of_failures_and_a_model_gets_its_options(load):
    found = load("[failures.kinds]\nour_filter = 'permanent'\n[worker.options]\nstep_seconds = 0.5")

    assert kind_of("our_filter", found.failures) is Kind.permanent
    assert found.worker.options == {"step_seconds": 0.5}


def test_the_key_of_peers_is_a_secret(tmp_path, load):
    (tmp_path / "peer.key").write_text("c0ffee c0ffee c0ffee\n")

    found = load("[peer]\nkey_file = 'peer.key'\ninto = 'models'\nport = 9500", local_stack=lambda _: SERVERS)

    assert (found.peer.key, found.peer.into, found.peer.port) == ("c0ffee c0ffee c0ffee", tmp_path / "models", 9500)
    assert "c0ffee" not in repr(found)


@pytest.mark.parametrize(
    ("text", "environment", "flags", "says"),
    [
        ("site = = 1", {}, (), ["headwater.toml is not TOML", "line 1"]),
        (
            "[kafka]\nbootstrap_server = 'b'",
            {},
            (),
            ["kafka.bootstrap_server", "no setting", "kafka.bootstrap_servers?"],
        ),
        ("sits = 'a'", {}, (), ["sits", "headwater.toml", "Did you mean site?"]),
        ("xyzzy = 1", {}, (), ["xyzzy", "Known here: site, dataset"]),
        ("", {"HEADWATER_S3__BUKET": "b"}, (), ["s3.buket", "HEADWATER_S3__BUKET", "s3.bucket?"]),
        ("", {"HEADWATER_KAFAK": "b:1"}, (), ["HEADWATER_KAFAK", "Did you mean HEADWATER_KAFKA?"]),
        ("[source.photos]", {}, (), ["source is no setting", "Did you mean sources?"]),
        ("", {}, ("lakes.endpoint=x",), ["lakes", "no setting", "Did you mean lakefs?"]),
        ("", {}, ("site",), ["--set site has no value", "section.key=value"]),
        ("log_level = 'loud'", {}, (), ["log_level is 'loud'", "headwater.toml", "'debug', 'info'"]),
        ("", {"HEADWATER_HTTP__PORT": "many"}, (), ["http.port is 'many'", "HEADWATER_HTTP__PORT", "valid integer"]),
        ("[http]\nport = [1]", {}, (), ["http.port is [1]", "valid integer"]),
        ("[sources.photos]", {}, (), ["sources.photos.root is not set", "HEADWATER_SOURCES__PHOTOS__ROOT"]),
        ("[sources.photos]\nroot='p'\nsite='x'", {}, (), ["sources.photos.site", "no setting"]),
        ("sources = 3", {}, (), ["sources is 3", "is a section", "[sources]"]),
        ("sources.photos = '/p'", {}, (), ["sources.photos is '/p'", "is a section", "[sources.photos]"]),
        ("[upload]\nsite = 'x'", {}, (), ["upload.site", "no setting"]),
        ("kafka = 'b:1'", {}, (), ["kafka is 'b:1'", "is a section", "[kafka]"]),
        ("[site]\nname = 'x'", {}, (), ["site is a section", "site = …"]),
        ("[s3]\nsecret_access_key = 'x'", {}, (), ["holds the secret s3.secret_access_key", "secret_access_key_file"]),
        ("[kafka.client]\n'sasl.password' = 'x'", {}, (), ["the secret kafka.client.sasl.password", "SASL_PASSWORD"]),
        ("[catalog]\ndsn = 'postgresql://u:x@h/d'", {}, (), ["the secret catalog.dsn", "dsn_file"]),
        ("[peer]\nkey = 'x'", {}, (), ["the secret peer.key", "key_file", "HEADWATER_PEER__KEY"]),
        ("", {}, ("peer.key=x",), ["--set peer.key", "HEADWATER_PEER__KEY"]),
        ("", {"HEADWATER_PEER__KEY": "short"}, (), ["peer", "less than 16 characters"]),
        ("", {}, ("s3.secret_access_key=x",), ["--set s3.secret_access_key", "HEADWATER_S3__SECRET_ACCESS_KEY"]),
        ("[s3]\nsecret_access_key_file = 'gone'", {}, (), ["s3.secret_access_key_file", "gone", "No such file"]),
        ("", {"HEADWATER_CONFIG": "gone.toml"}, (), ["gone.toml does not exist", "Correct HEADWATER_CONFIG"]),
        ("[failures.kinds]\nodd = 'sometimes'", {}, (), ["failures.kinds.odd is 'sometimes'", "'transient'"]),
        ("[worker]\nslots = 0", {}, (), ["worker.slots is 0"]),
        ("[client]\nkey = 'hw_x'", {}, (), ["the secret client.key", "key_file", "HEADWATER_CLIENT__KEY"]),
        ("", {"HEADWATER_S3": "s3.example"}, (), ["an S3 address must look like"]),
    ],
)
def test_an_error_names_the_key_the_value_and_the_fix(load, text, environment, flags, says):
    with pytest.raises(BadSettings) as error:
        load(text, environment, flags)

    for part in says:
        assert part in str(error.value)
    assert error.value.exit_code == 78


def test_a_secret_of_the_wrong_type_is_not_shown(load):
    with pytest.raises(BadSettings) as error:
        load("[kafka]\nbootstrap_servers = 'b'", {"HEADWATER_KAFKA__CLIENT__SASL_PASSWORD__X": "hush"})

    assert "hush" not in str(error.value)


def test_a_server_that_is_nowhere_is_missed_only_where_it_is_needed(load):
    found = load("[kafka]\nprefix = 'mine.'")

    with pytest.raises(BadSettings, match=r"kafka\.bootstrap_servers is not set.*headwater up.*HEADWATER_KAFKA"):
        found.needed_kafka()


def test_other_programs_variables_are_left_alone(load):
    assert load(environment={"HEADWATER_TEST_STACK": "/x", "HOME": "/root", "HEADWATER_SITE": ""}).site
