"""Compares the project's .proto files with the published declarations that they are a subset of."""

import subprocess
import tempfile
from pathlib import Path
from types import ModuleType

import google.protobuf
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor

from servers import Failure


def compare_declarations(folder: Path, modules: list[ModuleType], newer: frozenset[str] = frozenset()) -> int:
    """Checks that each message and field is published under the same name, number, type and label.

    `newer` names fields that the published modules do not have yet. Returns the number of compared fields.
    """
    with tempfile.NamedTemporaryFile() as file:
        sources = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.proto"))
        included = Path(google.protobuf.__file__).parents[2]
        command = [
            "protoc",
            f"-I{folder}",
            f"-I{included}",
            "-I.build/checkouts/swift-protobuf/Protos/Sources/SwiftProtobuf",
        ]
        subprocess.run([*command, f"--descriptor_set_out={file.name}", *sources], check=True)
        ours = descriptor_pb2.FileDescriptorSet.FromString(Path(file.name).read_bytes())
    published: dict[str, Descriptor] = {}
    enums: dict[str, EnumDescriptor] = {}
    for module in modules:
        package = module.DESCRIPTOR.package
        published |= {f"{package}.{name}": known for name, known in module.DESCRIPTOR.message_types_by_name.items()}
        enums |= {f"{package}.{name}": known for name, known in module.DESCRIPTOR.enum_types_by_name.items()}
    count = 0
    for file_ in ours.file:
        for message in file_.message_type:
            name = f"{file_.package}.{message.name}"
            original = descriptor_pb2.DescriptorProto()
            published[name].CopyToProto(original)
            count += compare_message(name, message, original, newer)
        for enum in file_.enum_type:
            name = f"{file_.package}.{enum.name}"
            known = {value.name: value.number for value in enums[name].values}
            if any(known.get(value.name) != value.number for value in enum.value):
                raise Failure(f"{name}: differs from the published declaration")
    return count


def compare_message(
    name: str,
    message: descriptor_pb2.DescriptorProto,
    original: descriptor_pb2.DescriptorProto,
    newer: frozenset[str],
) -> int:
    known = {field.name: field for field in original.field}
    count = 0
    for field in message.field:
        if f"{name}.{field.name}" in newer:
            continue
        published = known.get(field.name)
        traits = ("number", "type", "label", "type_name")
        if not published or any(getattr(field, trait) != getattr(published, trait) for trait in traits):
            raise Failure(f"{name}.{field.name}: differs from the published declaration")
        count += 1
    values = {(enum.name, value.name): value.number for enum in original.enum_type for value in enum.value}
    for enum in message.enum_type:
        for value in enum.value:
            if values.get((enum.name, value.name)) != value.number:
                raise Failure(f"{name}.{enum.name}.{value.name}: differs from the published declaration")
    nested = {inner.name: inner for inner in original.nested_type}
    for inner in message.nested_type:
        if inner.name not in nested:
            raise Failure(f"{name}.{inner.name} is not published")
        count += compare_message(f"{name}.{inner.name}", inner, nested[inner.name], newer)
    return count
