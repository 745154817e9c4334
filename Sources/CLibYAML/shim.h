// libyaml as Swift sees it: YAML 1.1, read and written.
#pragma once

#include <yaml.h>
