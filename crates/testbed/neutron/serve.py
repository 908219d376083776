"""Neutron with SQLite, without Keystone, agents and a message bus, on a port of its own.

Arguments: the folder for its files, and the file that the port is written to.
"""

import os
import sys

folder, port_file = sys.argv[1:]
config = f"""
[DEFAULT]
core_plugin = ml2
service_plugins = router
auth_strategy = noauth
transport_url = fake://
api_paste_config = {sys.prefix}/etc/neutron/api-paste.ini
state_path = {folder}
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
pagination_max_limit = 10

[ml2]
type_drivers = local
tenant_network_types = local
mechanism_drivers =
extension_drivers =

[database]
connection = sqlite:///{folder}/neutron.sqlite

[oslo_concurrency]
lock_path = {folder}/locks
"""
with open(f"{folder}/neutron.conf", "w") as file:
    file.write(config)
os.environ["OS_NEUTRON_CONFIG_DIR"] = folder
os.environ["OS_NEUTRON_CONFIG_FILES"] = "neutron.conf"
sys.argv = ["neutron-api"]

import sqlalchemy
from neutron.db.migration.models import head  # noqa: F401
from neutron_lib.db import model_base

# Its migrations do not run on SQLite; its tables can be made from its models.
engine = sqlalchemy.create_engine(f"sqlite:///{folder}/neutron.sqlite")
model_base.BASEV2.metadata.create_all(engine)
engine.dispose()

import waitress
from neutron.wsgi.api import application

# SQLite takes one writer at a time.
server = waitress.create_server(application, host="127.0.0.1", port=0, threads=1)
with open(f"{port_file}.new", "w") as file:
    file.write(str(server.effective_port))
os.rename(f"{port_file}.new", port_file)
server.run()
